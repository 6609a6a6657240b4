package chaos

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// end is where a journal ends, as an append or a reader has it.
type end struct {
	seq   uint64
	cause string
}

// appended is an append behind an end; a read has no cause.
type appended struct {
	behind end
	cause  string
}

// stepAppend is a journal: an append that is done found the end that it named. One that
// is refused has no effect, ever; that is also said while another one is being written.
func stepAppend(state, in any, out answer) (bool, any) {
	at, a := state.(end), in.(appended) //nolint:forcetypeassert // the test's own
	if a.cause == "" {
		return out.result != done || out.out == at, at
	}
	next := end{a.behind.seq + 1, a.cause}
	switch out.result {
	case done:
		return at == a.behind, next
	case unknown:
		if at == a.behind {
			return true, next
		}
	case refused:
	}
	return true, at
}

func TestAppendsAreLinearizable(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	const journals, writers = 4, 8
	a.under(7*time.Second, []string{"TURNLOG_JOURNAL"}, writers, func(ctx context.Context, i int, nc *nats.Conn) {
		s := content.SessionID(fmt.Sprint("s", i%journals))
		j := a.open(nc).Journal()
		var head journal.Head
		var at end
		for n := 1; ctx.Err() == nil; n++ {
			<-time.After(20 * time.Millisecond)
			cause := fmt.Sprintf("c%d-%d", i, n)
			if a.appends(i, j, s, &head, &at, cause) == done { //nolint:contextcheck // what was begun is brought to its end
				continue
			}
			head, at = a.reads(i, j, s) //nolint:contextcheck // likewise
		}
	})
	if unknowns := a.linearizable(t, stepAppend, end{}); unknowns == 0 {
		t.Error("of every append it was known what became of it: that proves little")
	}
	a.keeps(t)
}

// appends tries one append behind what the writer takes for the end, with the patience
// of a driver.
func (a *arena) appends(i int, j journal.Journal, s content.SessionID, head *journal.Head, at *end, cause string) outcome {
	return a.record(i, string(s), appended{*at, cause}, func() (any, outcome) {
		ctx, cancel := context.WithTimeout(a.Ctx, 3*time.Second)
		defer cancel()
		next, err := j.Append(ctx, *head, entry(s, cause, 1))
		switch {
		case err == nil:
			*head, *at = next, end{next.Seq, cause}
			return *at, done
		case errors.Is(err, journal.ErrUnknown):
			return nil, unknown
		}
		return nil, refused // a conflict, or nobody took it
	})
}

func entry(s content.SessionID, cause string, epoch uint64) events.Entry {
	return events.Entry{
		Session: s, Cause: cause, At: content.TimeOf(time.Now()), Epoch: epoch,
		Events: []events.Event{events.DriverClaimed{Epoch: epoch, Node: cause}},
	}
}

// reads asks the stream's leader where the journal ends, until it is told.
func (a *arena) reads(i int, j journal.Journal, s content.SessionID) (journal.Head, end) {
	for a.Ctx.Err() == nil {
		var head journal.Head
		var at end
		result := a.record(i, string(s), appended{}, func() (any, outcome) {
			ctx, cancel := context.WithTimeout(a.Ctx, 3*time.Second)
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

// keeps checks that whatever was acknowledged is in the stream, at its place.
func (a *arena) keeps(t *testing.T) {
	t.Helper()
	stored := make(map[string]map[uint64]string)
	for _, o := range a.history {
		at, ok := o.out.(end)
		if in, appends := o.in.(appended); !ok || !appends || in.cause == "" {
			continue
		}
		if stored[o.key] == nil {
			stored[o.key] = make(map[uint64]string)
			for rec, err := range a.Cell.Journal().Read(a.Ctx, content.SessionID(o.key), 0) {
				if err != nil {
					t.Fatal(err)
				}
				stored[o.key][rec.Seq] = rec.Entry.Cause
			}
		}
		if got := stored[o.key][at.seq]; got != at.cause {
			t.Errorf("%s: entry %d was acknowledged as %s and is %q", o.key, at.seq, at.cause, got)
		}
	}
}
