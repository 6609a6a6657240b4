package looptest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
)

// Script returns a journal as a script: its commands, by ID, and the events that followed. It
// can run among those in testdata and reproduces the problem. An entry that the core does not
// decide today, or whose command is unknown, becomes a record. Times count from [Epoch].
func Script(t testing.TB, about string, session content.SessionID, recs []journal.Record, sent map[string][]commands.Envelope) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(about) {
		out.WriteString("# " + strings.TrimRight(line, "\n") + "\n")
	}
	fmt.Fprintf(&out, "\nsession %s\n----\n", session)
	w := writer{out: &out, t: t, state: loop.New(session)}
	for _, rec := range recs {
		w.entry(rec.Entry, sent[rec.Entry.Cause])
	}
	return Play(&deaf{TB: t}, out.String())
}

// writer writes a script, entry by entry.
type writer struct {
	out     *strings.Builder
	t       testing.TB
	state   *loop.State
	catalog string // the last one offered
}

// entry writes the command that led to an entry. Several commands may have its ID, of which
// only one had an effect.
func (w *writer) entry(e events.Entry, sent []commands.Envelope) {
	defer w.state.Fold(e)
	for _, env := range sent {
		if text, ok := spelled(env); ok && w.decides(env, e.Events) {
			w.tell(env, text)
			return
		}
	}
	raw, err := e.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	fmt.Fprintf(w.out, "\nrecord %s at=%s\n----\n", base64.RawURLEncoding.EncodeToString(raw), offset(e.At))
}

func (w *writer) tell(env commands.Envelope, text string) {
	w.out.WriteString("\n")
	w.offer(env.Catalog)
	fmt.Fprintf(w.out, "tell %s id=%q at=%s", commands.NameOf(env.Command), env.ID, offset(env.At))
	if env.By != "" {
		fmt.Fprintf(w.out, " by=%q", env.By)
	}
	if env.User != "" {
		fmt.Fprintf(w.out, " user=%q", env.User)
	}
	w.out.WriteString(" " + text + "\n")
	for _, k := range env.Checks {
		raw, err := json.Marshal(k)
		if err != nil {
			w.t.Fatal(err)
		}
		w.out.WriteString("  check " + string(sparse(raw)) + "\n")
	}
	for _, a := range env.Hooks {
		raw, err := json.Marshal(a)
		if err != nil {
			w.t.Fatal(err)
		}
		w.out.WriteString("  hooks " + string(sparse(raw)) + "\n")
	}
	w.out.WriteString("----\n")
}

// decides reports whether the core decides the same events again.
func (w *writer) decides(env commands.Envelope, want []events.Event) bool {
	got, err := loop.Decide(w.state, env)
	return err == nil && len(got) == len(want) && lines(got) == lines(want)
}

func (w *writer) offer(c *events.Catalog) {
	text := ""
	if c != nil {
		raw, err := json.Marshal(c)
		if err != nil {
			w.t.Fatal(err)
		}
		text = " " + string(raw)
	}
	if text != w.catalog {
		w.catalog = text
		w.out.WriteString("offer" + text + "\n")
	}
}

// deaf ignores failures, so that a script of a broken session is complete.
type deaf struct{ testing.TB }

func (*deaf) Errorf(string, ...any) {}
