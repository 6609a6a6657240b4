package main

import (
	"strings"
	"testing"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream/backup/move"
)

// TestAProofHoldsWhereItsSessionWent exports a proof, moves the session, and verifies it in both cells and with an export.
func TestAProofHoldsWhereItsSessionWent(t *testing.T) {
	t.Parallel()
	l, there := newLogged(t), deploy(t)
	l.session("s-42").turn()
	l.log("s-42")
	proof := []string{"--proof", l.proof("s-42", "before"), "--policy", l.policy}
	last, err := l.cell.Journal().Last(t.Context(), "s-42")
	if err != nil {
		t.Fatal(err)
	}
	m, err := move.New(t.Context(), move.Cell{Cell: l.cell, Place: "frankfurt"}, move.Cell{Cell: there.cell, Place: "dublin"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Move(t.Context(), "s-42", last.Head, events.SessionDeleted{By: "ada"}); err != nil {
		t.Fatal(err)
	}
	for name, verified := range map[string]func(...string) (int, string, string){
		"at the target": func(more ...string) (int, string, string) {
			return there.observe(append([]string{"verify", "s-42"}, more...)...)
		},
		"its export": func(more ...string) (int, string, string) {
			return observe(t.Context(), nil, append([]string{"verify", "--file", there.export("s-42")}, more...)...)
		},
	} {
		code, out, errs := verified(append(proof, "--require", "witnessed")...)
		if code != 0 || !strings.Contains(out, "level    witnessed, through entry 7") || !strings.Contains(out, "moved") || !strings.Contains(out, "1 earlier head is held; 1 entry after the last") {
			t.Errorf("%s: verify = %d %s\n%s", name, code, errs, out)
		}
	}
	if code, out, errs := l.observe(append([]string{"verify", "s-42"}, proof...)...); code != cli.CodeUnjudged || !strings.Contains(out, "moved") {
		t.Errorf("at the source: verify = %d %s\n%s", code, errs, out)
	}
	if code, out, errs := l.observe("log", "audit", "--policy", l.policy, "--proof", proof[1]); code != 0 {
		t.Errorf("audit of the source's log = %d %s\n%s", code, errs, out)
	}
}
