package client

import (
	"errors"
	"testing"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

func newRemote() *remote {
	return &remote{
		id: "s", state: loop.New("s"), news: make(chan struct{}, 1), cursors: make(map[events.Lane]uint64),
		watcher: session.Watcher{Applied: func(*loop.State, journal.Record) {}},
	}
}

// A deleted session never looks like one that is idle.
func TestADeletionAndItsErrorAreSeenAtOnce(t *testing.T) {
	t.Parallel()
	r := newRemote()
	r.take(journal.Record{Entry: events.Entry{Session: "s", Seq: 1, Events: []events.Event{events.SessionDeleted{By: "ada"}}}})
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
