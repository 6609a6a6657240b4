package jetstream

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/events/seal"
	"github.com/turnlog/turnlog/internal/testing/journaltest"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/internal/sealing"
	"github.com/turnlog/turnlog/worker/task"
)

// newRing returns a ring with a new key in a file.
func newRing(t *testing.T) seal.Ring {
	t.Helper()
	file := filepath.Join(t.TempDir(), "seal.key")
	_, err := seal.Create(file)
	must(t, err)
	ring, err := seal.Read(file)
	must(t, err)
	return ring
}

func TestASealedJournalKeepsTheContract(t *testing.T) {
	t.Parallel()
	for _, c := range journaltest.Cases(journaltest.Features{}) {
		t.Run(c.Name, func(t *testing.T) {
			ring := newRing(t)
			inBubble(t, func(t *testing.T, cell *Cell) {
				c.Run(t, &sealedJournal{cell.Sealing(ring).Journal()})
			})
		})
	}
}

// sealedJournal seals every session.
type sealedJournal struct{ *Journal }

func (j *sealedJournal) Append(ctx context.Context, head journal.Head, e events.Entry) (journal.Head, error) {
	if err := j.cell.Seal(ctx, e.Session, ""); err != nil && ctx.Err() == nil && !errors.Is(err, content.ErrBadID) {
		return journal.Head{}, err
	}
	return j.Journal.Append(ctx, head, e)
}

const secret = "kZ8-nobody-may-read-this-0pQ"

// secretEntry is an entry whose content is the secret.
func secretEntry() events.Entry {
	return events.Entry{Session: "s1", Cause: "c", Epoch: 1, At: 1, Events: []events.Event{events.Warning{Code: "x", Message: secret}}}
}

func TestWithoutTheKeyASessionIsClosed(t *testing.T) {
	ring, others := newRing(t), newRing(t)
	inBubble(t, func(t *testing.T, c *Cell) {
		ctx, open := t.Context(), c.Sealing(ring)
		must(t, open.Seal(ctx, "s1", ""))
		claim := secretEntry()
		claim.Events = []events.Event{events.DriverClaimed{Epoch: 1, Node: "n"}}
		head, err := open.Journal().Append(ctx, journal.Head{}, claim)
		must(t, err)
		_, err = open.Journal().Append(ctx, head, secretEntry())
		must(t, err)
		_, err = open.Inbox().Send(ctx, commands.Envelope{ID: "c1", Session: "s1", Command: commands.Cancel{Reason: secret}})
		must(t, err)
		for name, k := range map[string]struct {
			cell *Cell
			why  error
			says string
		}{
			"no key":      {c, nil, "--seal-key"},
			"another key": {c.Sealing(others), seal.ErrOtherKey, ring[0].ID()},
		} {
			var got []journal.Record
			for rec, err := range k.cell.Journal().Read(ctx, "s1", 0) {
				must(t, err)
				got = append(got, rec)
			}
			if len(got) != 2 || got[0].Err != nil || len(got[0].Entry.Events) != 1 {
				t.Fatalf("%s: the claim is not read: %+v", name, got)
			}
			sealed, ok := errors.AsType[*events.SealedError](got[1].Err)
			if !ok || !errors.Is(got[1].Err, k.why) && k.why != nil || !strings.Contains(sealed.Error(), k.says) {
				t.Errorf("%s: the error is %v", name, got[1].Err)
			}
			for m, err := range k.cell.Inbox().Read(ctx, "s1", nil, 0) {
				must(t, err)
				if err := k.cell.Inbox().Open(ctx, &m); !errors.Is(err, events.ErrUnknownKind) {
					t.Errorf("%s: Open of a command = %v, %v, want a SealedError: it must not be skipped", name, err, m.Err)
				}
			}
		}
		for m, err := range open.Inbox().Read(ctx, "s1", nil, 0) {
			must(t, errors.Join(err, open.Inbox().Open(ctx, &m), m.Err))
			if m.Envelope.Command.(commands.Cancel).Reason != secret {
				t.Errorf("the command is %+v", m.Envelope)
			}
		}
	})
}

// A sender who only says that a command is sealed must not stop a session.
func TestAFalselySealedCommandIsABadCommand(t *testing.T) {
	ring := newRing(t)
	inBubble(t, func(t *testing.T, c *Cell) {
		ctx := t.Context()
		_, err := c.Journal().Append(ctx, journal.Head{}, secretEntry())
		must(t, err)
		msg := nats.NewMsg(c.names.Cmd("s1", events.LaneAsk))
		msg.Header.Set(layout.HeaderSealed, seal.New().ID().String())
		msg.Data = []byte("nonsense")
		_, err = c.api.Publish(ctx, msg)
		must(t, err)
		// Nor does a key that was never the session's.
		must(t, c.Sealing(ring).Seal(ctx, "s1", ""))
		for _, cell := range []*Cell{c, c.Sealing(ring)} {
			for _, err := range cell.Journal().Read(ctx, "s1", 0) {
				must(t, err)
			}
			for m, err := range cell.Inbox().Read(ctx, "s1", nil, 0) {
				must(t, err)
				if err := cell.Inbox().Open(ctx, &m); err != nil || !errors.Is(m.Err, commands.ErrBadCommand) {
					t.Errorf("Open = %v, %v, want a bad command", err, m.Err)
				}
			}
			if sealed, err := cell.IsSealed(ctx, "s1"); sealed || err != nil {
				t.Errorf("a session with unsealed entries is sealed: %v", err)
			}
		}
	})
}

func TestNoFileOfTheServerShowsSealedContent(t *testing.T) {
	t.Parallel()
	dir, ring := t.TempDir(), newRing(t)
	s := startServer(t, onDiskAt(dir)...)
	c := openCell(t, natstest.Connect(t, s))
	create(t, c, jetstream.FileStorage, 1)
	write := func(c *Cell, id content.SessionID, marker string) {
		ctx := t.Context()
		e := secretEntry()
		e.Session = id
		e.Events = []events.Event{events.Warning{Message: marker + string(natstest.Noise(100<<10, 3))}} // a blob
		small := secretEntry()
		small.Session, small.Events = id, []events.Event{events.Warning{Message: marker}}
		head, err := c.Journal().Append(ctx, journal.Head{}, small)
		must(t, err)
		_, err = c.Journal().Append(ctx, head, e)
		must(t, err)
		_, err = c.Inbox().Send(ctx, commands.Envelope{ID: "c1", Session: id, Baggage: "of=" + marker, Command: commands.Cancel{Reason: marker}})
		must(t, err)
		must(t, c.Timers().Arm(ctx, id, "t1", content.Time(1<<62).Std(), commands.Envelope{ID: "t1", Session: id, By: marker, Command: commands.ReportTimer{}}))
		must(t, c.Tasks().Dispatch(ctx, task.Task{Queue: "q", Session: id, Place: "t1-r1-c1", Tool: marker, Baggage: "of=" + marker}))
		must(t, c.Snapshots().Put(ctx, id, journal.Snapshot{Head: head, State: []byte(marker)}))
		snap, ok, err := c.Snapshots().Get(ctx, id)
		if err != nil || !ok || string(snap.State) != marker {
			t.Errorf("the snapshot is %q, %v", snap.State, err)
		}
	}
	const clear = "kZ8-everyone-may-read-this-1"
	open := c.Sealing(ring)
	must(t, open.Seal(t.Context(), "s1", ""))
	write(open, "s1", secret)
	write(c, "s2", clear)
	stored, err := open.seals.Stored(t.Context(), "s1")
	must(t, err)
	key := stored[0].Wrapped[sealingNonce:]
	if found := scan(t, dir, key); found == 0 {
		t.Error("the scan does not find the key before it is destroyed")
	}
	must(t, open.seals.Destroy(t.Context(), "s1"))
	s.Close()
	if found := scan(t, dir, []byte(secret)); found != 0 {
		t.Errorf("%d files show sealed content", found)
	}
	if found := scan(t, dir, []byte(clear)); found < 4 {
		t.Errorf("the scan finds what is not sealed in only %d files", found)
	}
	if found := scan(t, dir, key); found != 0 {
		t.Errorf("%d files have the wrapped key after it was destroyed", found)
	}
}

const sealingNonce = seal.NonceSize

// scan counts the files that contain text.
func scan(t *testing.T, dir string, text []byte) (found int) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, text) {
			found++
			t.Logf("%s has %.8q", path, text)
		}
		return err
	}))
	return found
}

func TestKeysAreWrappedAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "seal.key")
	_, err := seal.Create(file)
	must(t, err)
	old, err := seal.Read(file)
	must(t, err)
	_, err = seal.Rotate(file)
	must(t, err)
	both, err := seal.Read(file)
	must(t, err)
	inBubble(t, func(t *testing.T, c *Cell) {
		ctx := t.Context()
		must(t, c.Sealing(old).Seal(ctx, "s1", "s0"))
		before, err := c.Sealing(old).seals.Of(ctx, "s1")
		must(t, err)
		for range 2 { // again changes nothing
			keys := c.Sealing(both).seals
			all, err := keys.Stored(ctx, AllSessions)
			must(t, err)
			for _, at := range all {
				_, err := keys.Rewrap(ctx, at)
				must(t, err)
			}
		}
		after, err := c.Sealing(both[:1]).seals.Of(ctx, "s1")
		if err != nil || !after.Equal(before) {
			t.Errorf("with the new seal key the key of the session is %v, %v", after, err)
		}
		left, err := c.seals.Stored(ctx, "s1")
		if err != nil || len(left) != 1 || left[0].Wrapper != both[0].ID() || left[0].Parent != "s0" {
			t.Errorf("stored are %+v, %v, want one, by the new seal key", left, err)
		}
	})
}

// A user who starts sessions can say that the session of another user worked for his own, and have his own erased.
func TestOnlySubAgentsAreErasedWithASession(t *testing.T) {
	t.Parallel()
	all := []sealing.Stored{
		{Session: "victim", Parent: "mine"},
		{Session: "mine", Parent: "mine"},
		{Session: "mine-t1-r1-c1", Parent: "mine"},
		{Session: "mine-t1-r1-c1-t2-r1-c3", Parent: "mine-t1-r1-c1"},
		{Session: "mine-t1-r1-c2", Parent: "other"},
		{Session: "mine-tail", Parent: "mine"},
	}
	want := []content.SessionID{"mine-t1-r1-c1", "mine-t1-r1-c1-t2-r1-c3"}
	if got := sealing.Children(all, "mine"); !slices.Equal(got, want) {
		t.Errorf("Children = %v, want %v", got, want)
	}
}

// TestAProcessThatKnewTheKeySendsNothingInTheClear has a worker report to a session that was erased while its call ran.
func TestAProcessThatKnewTheKeySendsNothingInTheClear(t *testing.T) {
	ring := newRing(t)
	for name, wait := range map[string]time.Duration{"soon": 0, "when it has forgotten the key": time.Hour} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, cell *Cell) {
				keeper, sealed := cell.Sealing(ring), cell.Sealing(ring)
				must(t, sealed.Seal(t.Context(), "s", ""))
				send := func() error {
					_, err := sealed.Inbox().Send(t.Context(), commands.Envelope{ID: "c", Session: "s", Command: commands.Close{Reason: secret}})
					return err
				}
				must(t, send())
				must(t, keeper.seals.Destroy(t.Context(), "s"))
				<-time.After(wait)
				if wait == 0 {
					sealed.seals.Forget("s") // as at the tombstone
				}
				if err := send(); !errors.Is(err, sealing.ErrGone) {
					t.Errorf("Send = %v", err)
				}
				if err := sealed.Live().Publish("s", events.Refused{Detail: secret}); !errors.Is(err, sealing.ErrGone) {
					t.Errorf("Publish = %v", err)
				}
				_, err := sealed.Journal().Append(t.Context(), journal.Head{}, events.Entry{Session: "s", Seq: 1, Epoch: 1, Events: []events.Event{events.Warning{Code: secret}}})
				if !errors.Is(err, sealing.ErrGone) {
					t.Errorf("Append = %v", err)
				}
			})
		})
	}
}
