package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/clitest"
)

func TestTailFollowsOneSession(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	w := d.session("s-42")
	d.session("s-43")
	fromStart, stopFirst := d.tail("s-42", "--from", "1")
	fromStart.Await(t, "run_started")
	fromNow, stopSecond := d.tail("s-42", "--deltas")
	d.sendUntil("hello", fromNow)
	w.turn()
	for _, shown := range []*clitest.Screen{fromStart, fromNow} {
		shown.Await(t, "turn_finished")
	}
	if strings.Contains(fromStart.String(), "s-43") || !strings.HasPrefix(fromStart.String(), "    1  ") {
		t.Errorf("from the start:\n%s", fromStart)
	}
	if !strings.Contains(fromNow.String(), "\n    3  ") || strings.Contains(fromNow.String(), "run_started") {
		t.Errorf("from now on:\n%s", fromNow)
	}
	if a, b := stopFirst(), stopSecond(); a != 0 || b != 0 {
		t.Errorf("exit codes = %d, %d", a, b)
	}
	_, all, _ := d.observe("events", "s-42")
	if fromStart.String() != all {
		t.Errorf("tail shows\n%s\nevents shows\n%s", fromStart, all)
	}
}

func TestTailFollowsAllSessions(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	w := d.session("s-42")
	fromStart, stopFirst := d.tail("--from", "1")
	fromSecond, stopSecond := d.tail("--from", "2", "-o", "jsonl")
	d.session("s-43")
	for _, shown := range []*clitest.Screen{fromStart, fromSecond} {
		shown.Await(t, "s-43")
	}
	w.turn()
	for _, shown := range []*clitest.Screen{fromStart, fromSecond} {
		shown.Await(t, "turn_finished")
	}
	stopFirst()
	stopSecond()
	if !strings.HasPrefix(fromStart.String(), "s-42     1  2026-01-02T03:04:01.000Z  driver_claimed") || strings.Count(fromStart.String(), "run_started") != 2 {
		t.Errorf("from the start:\n%s", fromStart)
	}
	position := uint64(2)
	for line := range strings.Lines(fromSecond.String()) {
		var e struct{ Position uint64 }
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Position != position {
			t.Fatalf("position %d, %v, want %d in %s", e.Position, err, position, line)
		}
		position++
	}
	if position != 10 {
		t.Errorf("the last position is %d, want 9", position-1)
	}
}

func TestTailShowsLiveEventsOnRequest(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	w := d.session("s-42")
	with, stopWith := d.tail("s-42", "--from", "1", "--deltas")
	lines, stopLines := d.tail("--from", "1", "--deltas", "-o", "jsonl")
	without, stopWithout := d.tail("s-42", "--from", "1")
	d.sendUntil("A main", with, lines)
	if want := "    ~                            content_delta         part 1, append, text: A main\n"; !strings.Contains(with.String(), want) {
		t.Errorf("%q is not in\n%s", want, with)
	}
	if !strings.Contains(lines.String(), `{"session":"s-42","live":{"kind":"content_delta"`) {
		t.Errorf("lines:\n%s", lines)
	}
	w.turn()
	for _, shown := range []*clitest.Screen{with, lines, without} {
		shown.Await(t, "turn_finished")
	}
	stopWith()
	stopLines()
	stopWithout()
	if strings.Contains(without.String(), "content_delta") {
		t.Errorf("without --deltas:\n%s", without)
	}
}

// sendUntil sends a live event until every screen shows it: then its tail runs, and knows
// where its entries begin.
func (d *deployment) sendUntil(text string, shown ...*clitest.Screen) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), clitest.Patience)
	defer cancel()
	for _, s := range shown {
		for !strings.Contains(s.String(), text) {
			delta := content.Delta{Op: content.AppendPart, Kind: content.TextKind, Text: text}
			ev := events.ContentDelta{Turn: "turn-1", Round: 1, Attempt: 1, Delta: delta}
			if err := d.cell.Live().Publish("s-42", ev); err != nil {
				d.t.Fatal(err)
			}
			pause := time.NewTimer(10 * time.Millisecond)
			select {
			case <-pause.C:
			case <-ctx.Done():
				d.t.Fatalf("%q is not shown:\n%s", text, s)
			}
		}
	}
}
