package chaos

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/cell"
)

// end is where a journal ends, as an append or a read reports it.
type end struct {
	seq   uint64
	cause string
}

// appended is an append after an end. A read has no cause.
type appended struct {
	after end
	cause string
}

// stepAppend models a journal: a successful append found the end that it named. A
// refused append never has an effect; a journal may also refuse while it writes another.
func stepAppend(state, in any, out answer) (bool, any) {
	at, a := state.(end), in.(appended) //nolint:forcetypeassert // the test's own
	if a.cause == "" {
		return out.result != done || out.out == at, at
	}
	next := end{a.after.seq + 1, a.cause}
	switch out.result {
	case done:
		return at == a.after, next
	case unknown:
		if at == a.after {
			return true, next
		}
	case refused:
	}
	return true, at
}

// appendUntil appends to one of four journals, as client i of eight, until ctx ends and the
// history is long enough.
func (h *history) appendUntil(ctx context.Context, i int, p *cell.Process) {
	s := content.SessionID(fmt.Sprint("append-", i%4))
	j := p.Cell.Journal()
	h.mu.Lock()
	h.cell = p.Cell
	h.mu.Unlock()
	var head journal.Head
	var at end
	for n := 1; h.goesOn(ctx); n++ {
		<-time.After(20 * time.Millisecond)
		if n%16 == 2*i {
			deafen(p)
		}
		cause := fmt.Sprintf("c%d-%d", i, n)
		if h.appends(i, j, s, &head, &at, cause) == done {
			continue
		}
		head, at = h.reads(i, j, s)
	}
}

// appends tries one append after the end that the writer knows, as long as a driver
// would.
func (h *history) appends(i int, j journal.Journal, s content.SessionID, head *journal.Head, at *end, cause string) outcome {
	return h.record(i, string(s), appended{*at, cause}, func() (any, outcome) {
		ctx, cancel := context.WithTimeout(h.t.Context(), 3*time.Second)
		defer cancel()
		next, err := j.Append(ctx, *head, entry(s, cause, 1))
		switch {
		case err == nil:
			*head, *at = next, end{next.Seq, cause}
			return *at, done
		case errors.Is(err, journal.ErrUnknown):
			return nil, unknown
		}
		return nil, refused // a conflict, or no server received it
	})
}

func entry(s content.SessionID, cause string, epoch uint64) events.Entry {
	return events.Entry{
		Session: s, Cause: cause, At: content.TimeOf(time.Now()), Epoch: epoch,
		Events: []events.Event{events.DriverClaimed{Epoch: epoch, Node: cause}, events.Parked{}}, // nodes wake sessions that are not parked
	}
}

// reads asks the stream's leader where the journal ends, until it answers.
func (h *history) reads(i int, j journal.Journal, s content.SessionID) (journal.Head, end) {
	for h.t.Context().Err() == nil {
		var head journal.Head
		var at end
		result := h.record(i, string(s), appended{}, func() (any, outcome) {
			ctx, cancel := context.WithTimeout(h.t.Context(), 3*time.Second)
			defer cancel()
			last, err := j.Last(ctx, s)
			switch {
			case errors.Is(err, journal.ErrNotFound):
				return end{}, done
			case err != nil:
				return nil, refused
			}
			head, at = last.Head, end{last.Seq, last.Entry.Cause}
			return at, done
		})
		if result == done {
			return head, at
		}
	}
	return journal.Head{}, end{}
}

// keeps checks that every acknowledged entry is in the stream, in its place.
func (h *history) keeps(t *testing.T) {
	t.Helper()
	stored := make(map[string]map[uint64]string)
	for _, o := range h.ops {
		at, ok := o.out.(end)
		if in, appends := o.in.(appended); !ok || !appends || in.cause == "" {
			continue
		}
		if stored[o.key] == nil {
			stored[o.key] = make(map[uint64]string)
			for rec, err := range h.cell.Journal().Read(t.Context(), content.SessionID(o.key), 0) {
				if err != nil {
					t.Error(err)
					return
				}
				stored[o.key][rec.Seq] = rec.Entry.Cause
			}
		}
		if got := stored[o.key][at.seq]; got != at.cause {
			t.Errorf("%s: entry %d was acknowledged as %s and is %q", o.key, at.seq, at.cause, got)
		}
	}
}
