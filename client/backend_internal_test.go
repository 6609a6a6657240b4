package client

import (
	"errors"
	"testing"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

func newRemote() *remote {
	return &remote{
		id: "s", state: loop.New("s"), news: make(chan struct{}, 1), cursors: make(map[events.Lane]uint64),
		watcher: session.Watcher{Applied: func(*loop.State, journal.Record) {}, Live: func(events.Event) {}},
	}
}

// A deleted session never looks like one that is idle.
func TestADeletionAndItsErrorAreSeenAtOnce(t *testing.T) {
	t.Parallel()
	r := newRemote()
	r.handleEntry(journal.Record{Entry: events.Entry{Session: "s", Seq: 1, Events: []events.Event{events.SessionDeleted{By: "ada"}}}})
	err := r.View(func(*loop.State, journal.Head) {})
	if d, ok := errors.AsType[*session.DeletedError](err); !ok || d.By != "ada" {
		t.Errorf("View = %v", err)
	}
}

func TestACommandThatWasRecordedBeforeIsNotPassedOver(t *testing.T) {
	t.Parallel()
	r := newRemote()
	r.state.Causes = []string{"in"}
	a := &ask{id: "in", seq: 1, outcome: make(chan error, 1)}
	r.asks, r.cursors[a.lane] = []*ask{a}, 1
	r.passOver(a)
	select {
	case err := <-a.outcome:
		if err != nil {
			t.Error(err)
		}
	default:
		t.Error("the command waits to be taken for lost")
	}
}

// A refusal comes over another subscription than entries, and may arrive earlier. The client must not see the
// session in a state before the refusal.
func TestARefusalWaitsForTheEntriesBeforeIt(t *testing.T) {
	t.Parallel()
	r := newRemote()
	a := &ask{id: "in", seq: 7, outcome: make(chan error, 1)}
	r.asks = []*ask{a}
	r.handleLive(events.Refused{Command: "in", Reason: "busy", After: 2})
	for n := range uint64(2) {
		select {
		case err := <-a.outcome:
			t.Fatalf("answered after entry %d: %v", n, err)
		default:
		}
		r.handleEntry(journal.Record{
			Head:  journal.Head{Seq: n + 1},
			Entry: events.Entry{Session: "s", Seq: n + 1, Cursors: []events.Cursor{{Seq: 7}}, Events: []events.Event{events.Warning{}}},
		})
	}
	if e, ok := errors.AsType[*commands.Rejection](<-a.outcome); !ok || e.Reason != "busy" {
		t.Errorf("the answer is %v", e)
	}
}
