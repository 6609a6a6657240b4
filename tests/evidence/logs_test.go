package evidence

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"golang.org/x/mod/sumdb/note"

	"github.com/turnlog/turnlog/audit/completeness"
	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/notary"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/heads"
)

// ledger is a stage whose log has the head of the session.
type ledger struct {
	*stage

	log     *logWorld // the keys
	state   headlog.State
	number  uint64
	before  headlog.State // before its last leaf
	earlier headlog.Proof // of the session, which an auditor kept
}

// begin starts another log, with the journal and its head.
func (l *ledger) begin(t *testing.T) {
	t.Helper()
	l.prepare(t)
	l.log.ahead = 0
	l.ask("DELETE.KV_TURNLOG_CHECKPOINTS", "", nil)
	natstest.Must(t, admin.Of(l.cell).Provision(t.Context(), admin.Config{Memory: true}))
	l.state, l.number = headlog.NewState("example.com/log"), 0
	l.add(headlog.Leaf{Cell: cell, Session: "s-1", Seq: 9, Hash: l.end.Hash})
	l.before = l.state
	l.add(headlog.Leaf{Cell: "other", Session: "s-9", Seq: 1, Hash: events.Hash{9}})
	r, err := heads.Of(l.cell).Reader(t.Context(), l.state, l.state.Checkpoint().Tree)
	natstest.Must(t, err)
	l.earlier = headlog.Proof{Leaf: l.leaf(), Checkpoint: l.log.signed(l.state.Checkpoint().Text(), l.log.key, l.log.w1, l.log.w2)}
	l.earlier.Hashes, err = r.Prove(0)
	natstest.Must(t, err)
}

// leaf is the head of the session.
func (l *ledger) leaf() headlog.Leaf {
	return headlog.Leaf{Cell: cell, Session: "s-1", Seq: l.end.Seq, Hash: l.end.Hash}
}

// add logs leaves and publishes a checkpoint that all sign.
func (l *ledger) add(leaves ...headlog.Leaf) {
	l.t.Helper()
	var texts [][]byte
	for _, leaf := range leaves {
		texts = append(texts, leaf.Text())
	}
	next, err := l.state.Append(texts)
	natstest.Must(l.t, err)
	l.show(next, l.log.key, l.log.w1, l.log.w2)
}

// show stores a state and its checkpoint, whatever was there.
func (l *ledger) show(s headlog.State, by ...note.Signer) {
	l.t.Helper()
	l.commit(s)
	l.publishCheckpoint(l.log.signed(s.Checkpoint().Text(), by...))
}

// commit stores a state that is not signed yet.
func (l *ledger) commit(s headlog.State) {
	l.t.Helper()
	var err error
	l.number, err = heads.Of(l.cell).Commit(l.t.Context(), s, l.number)
	natstest.Must(l.t, err)
	l.state = s
}

func (l *ledger) publishCheckpoint(signed []byte) {
	l.t.Helper()
	_, number, err := heads.Of(l.cell).Checkpoint(l.t.Context())
	natstest.Must(l.t, err)
	natstest.Must(l.t, heads.Of(l.cell).Publish(l.t.Context(), signed, number))
}

// overwrite changes the text of the stored state.
func (l *ledger) overwrite(from, to string) {
	l.t.Helper()
	raw, err := l.state.Encode()
	natstest.Must(l.t, err)
	_, err = l.nc.RequestWithContext(l.t.Context(), "$KV.TURNLOG_CHECKPOINTS.tree", []byte(strings.Replace(string(raw), from, to, 1)))
	natstest.Must(l.t, err)
}

// write appends an entry to a session.
func (l *ledger) write(s content.SessionID) {
	l.t.Helper()
	head, e := journal.Head{}, entry(1, events.Warning{Code: "x"})
	if e.Session = s; s == "s-1" {
		head = l.end
	} else {
		e.Events = []events.Event{events.DriverClaimed{Epoch: 1, Node: "n1"}}
	}
	_, err := l.cell.Journal().Append(l.t.Context(), head, e)
	natstest.Must(l.t, err)
}

// wait appends an entry to a session, unless it is "", and has the witnesses see the log an hour later.
func (l *ledger) wait(s content.SessionID) {
	l.t.Helper()
	if s != "" {
		l.write(s)
	}
	l.log.ahead = time.Hour
	l.show(l.state, l.log.key, l.log.w1, l.log.w2)
}

// again writes the journal again, with another input.
func (l *ledger) again() {
	list := entries()
	for i := range list {
		list[i].At++
	}
	l.perform(list, nil)
}

// restored records that the deployment was restored now, from a backup that began after a given time. With says, the session records it,
// too.
func (l *ledger) restored(after time.Duration, says bool) {
	l.t.Helper()
	by := events.Restored{Backup: "b1", Taken: content.TimeOf(time.Now().Add(after))}
	l.restores = []verdict.Restore{{At: content.TimeOf(time.Now().Add(2 * time.Hour)), Restored: by}}
	if says {
		e := entry(2, events.DriverClaimed{Epoch: 2, Restored: &by})
		e.At = l.restores[0].At
		l.extend(nil, e)
	}
}

// TestEveryFalsifiedLogIsFound audits logs that were changed, and journals that were changed after they were logged.
// The auditor has an earlier proof, and exits as observer log audit does.
func TestEveryFalsifiedLogIsFound(t *testing.T) {
	t.Parallel()
	l := &ledger{stage: newStage(t), log: newLogWorld(t)}
	other, _ := l.log.logKey("example.com/log")
	all := []note.Signer{l.log.key, l.log.w1, l.log.w2}
	addTombstone := func(l *ledger) { l.extend(nil, entry(1, events.SessionDeleted{By: "kim"})) }
	for _, row := range []struct {
		name string
		do   func(l *ledger)
		kind verdict.Kind // of the first fault; "": none
		seq  uint64
		exit int
	}{
		{"log: as it was", func(*ledger) {}, "", 0, 0},
		{"log: it grows", func(l *ledger) { l.extend(nil, entry(1, events.Warning{Code: "x"})); l.add(l.leaf()) }, "", 0, 0},
		{"log: a session was left out", func(l *ledger) { l.purge() }, verdict.Missing, 9, 1},
		{"log: a session was cut off", func(l *ledger) { edit(func(m []*nats.Msg) []*nats.Msg { return m[:8] })(l.stage) }, verdict.Truncated, 9, 1},
		{"log: a session was written again", (*ledger).again, verdict.Replaced, 9, 1},
		{"log: a session was deleted", addTombstone, "", 0, 0},
		{"log: a session was deleted, and that was logged", func(l *ledger) { addTombstone(l); l.add(l.leaf()) }, "", 0, 0},
		{"log: a session was written again and deleted", func(l *ledger) { l.again(); addTombstone(l) }, verdict.Replaced, 9, 1},
		{"log: a tombstone of another history", func(l *ledger) {
			l.purge()
			l.end = journal.Head{}
			addTombstone(l)
		}, verdict.Truncated, 9, 1},
		{"log: it lacks a session", func(l *ledger) { l.wait("s-2") }, verdict.Missing, 1, 1},
		{"log: it lacks what follows", func(l *ledger) { l.wait("s-1") }, verdict.Missing, 10, 1},
		{"log: it lacks a tombstone", func(l *ledger) { addTombstone(l); l.wait("") }, verdict.Missing, 10, 1},
		{"log: it does not have a session yet", func(l *ledger) {
			l.write("s-3")
			l.show(l.state, all...)
		}, "", 0, 0},
		{"log: rolled back", func(l *ledger) { l.show(l.before, all...) }, verdict.RolledBack, 0, 1},
		{"log: rewritten", func(l *ledger) {
			l.state = headlog.NewState("example.com/log")
			l.add(l.leaf(), l.leaf(), l.leaf())
		}, verdict.Replaced, 0, 1},
		{"log: forked", func(l *ledger) { l.state = l.before; l.add(headlog.Leaf{Cell: "other", Session: "s-8", Seq: 1}) }, verdict.Replaced, 0, 1},
		{"log: two hashes of an entry", func(l *ledger) {
			leaf := l.leaf()
			leaf.Hash[0] ^= 1
			l.add(leaf)
		}, verdict.Replaced, 9, 1},
		{"log: another key", func(l *ledger) { l.show(l.state, other, l.log.w1, l.log.w2) }, verdict.Foreign, 0, 1},
		{"log: a forged checkpoint", func(l *ledger) {
			l.publishCheckpoint([]byte(strings.Replace(string(l.log.signed(l.state.Checkpoint().Text(), all...)), "\n2\n", "\n3\n", 1)))
		}, verdict.Forged, 0, 1},
		{"log: no checkpoint", func(l *ledger) { l.publishCheckpoint([]byte("hello")) }, verdict.Unreadable, 0, 1},
		{"log: a leaf was changed", func(l *ledger) { l.overwrite(`"leaves":["`, `"leaves":["AAAA`) }, verdict.Tampered, 0, 1},
		{"log: the state is none", func(l *ledger) { l.overwrite("{", "[") }, verdict.Tampered, 0, 1},
		{"log: a root that is not that of the leaves", func(l *ledger) { l.overwrite(`"root":"`, `"root":"A`) }, verdict.Tampered, 0, 1},
		{"restore: the log lost what came after the backup", func(l *ledger) {
			l.show(l.before, all...)
			l.restored(-time.Minute, true)
		}, verdict.Restored, 0, verdict.ExitUnjudged},
		{"restore: the log lost what a witness saw before the backup", func(l *ledger) {
			l.show(l.before, all...)
			l.restored(time.Hour, true)
		}, verdict.RolledBack, 0, 1},
		{"restore: the log lost what a witness saw after the restore", func(l *ledger) {
			l.restored(-time.Hour, true)
			l.restores[0].At = content.TimeOf(time.Now().Add(-time.Minute))
			l.show(l.before, all...)
		}, verdict.RolledBack, 0, 1},
		{"restore: a session does not say so", func(l *ledger) {
			l.show(l.before, all...)
			l.restored(-time.Minute, false)
		}, verdict.Forged, 0, 1},
		{"restore: the log is another one", func(l *ledger) {
			l.state = l.before
			l.add(headlog.Leaf{Cell: "other", Session: "s-8", Seq: 1})
			l.restored(-time.Minute, true)
		}, verdict.Replaced, 0, 1},
		{"restore: a session lost what was logged", func(l *ledger) {
			edit(func(m []*nats.Msg) []*nats.Msg { return m[:8] })(l.stage)
			l.restored(-time.Minute, false)
		}, verdict.Truncated, 9, 1},
		{"witness: none", func(l *ledger) { l.publishCheckpoint(l.log.signed(l.state.Checkpoint().Text(), l.log.key)) }, "", 0, verdict.ExitBelow},
		{"witness: one is missing", func(l *ledger) {
			l.publishCheckpoint(l.log.signed(l.state.Checkpoint().Text(), l.log.key, l.log.w1))
		}, "", 0, verdict.ExitBelow},
		{"witness: another key of that name", func(l *ledger) {
			l.publishCheckpoint(l.log.signed(l.state.Checkpoint().Text(), l.log.key, l.log.w1, l.log.witness("w2.example")))
		}, "", 0, verdict.ExitBelow},
		{"witness: of another tree", func(l *ledger) {
			of := string(l.log.signed(l.before.Checkpoint().Text(), l.log.w2))
			_, line, _ := strings.Cut(of, "\n\n")
			l.publishCheckpoint(append(l.log.signed(l.state.Checkpoint().Text(), l.log.key, l.log.w1), line...))
		}, verdict.Forged, 0, 1},
	} {
		l.begin(t)
		row.do(l)
		r, err := completeness.Check(t.Context(), l.cell, l.log.policy(), []headlog.Proof{l.earlier}, completeness.Keys{}, l.restores)
		natstest.Must(t, err)
		var first completeness.Fault
		exit := verdict.ExitReached
		switch {
		case len(r.Faults) > 0:
			first, exit = r.Faults[0], verdict.ExitUnjudged
			if r.Judged() {
				exit = verdict.ExitFault
			}
		case !r.Witnessed:
			exit = verdict.ExitBelow
		}
		if first.Kind != row.kind || first.Seq != row.seq || exit != row.exit {
			t.Errorf("%s: exit code %d, %v\nwant %d, entry %d, %s", row.name, exit, r.Faults, row.exit, row.seq, row.kind)
		}
	}
}

// TestNoNotarySignsAFalseLeaf has an operator who adds a leaf to the log that is not signed yet, and may write to the journal.
func TestNoNotarySignsAFalseLeaf(t *testing.T) {
	t.Parallel()
	l := &ledger{stage: newStage(t), log: newLogWorld(t)}
	key, err := headlog.ParseLogKey(l.log.public)
	natstest.Must(t, err)
	claim := func(of journal.Record, payload []byte) func(l *ledger) headlog.Leaf {
		return func(l *ledger) headlog.Leaf {
			l.extend(nil, entry(2, events.DriverClaimed{Epoch: 2, Node: "move", MovedFrom: &events.MovedFrom{Cell: "b", Tombstone: of.Hash, Entry: payload}}))
			leaf := l.leaf()
			leaf.Hash = of.Hash
			return leaf
		}
	}
	tombstone := func(d events.SessionDeleted) func(*ledger) headlog.Leaf {
		return func(l *ledger) headlog.Leaf {
			_, payload, head, err := journal.Link(l.end, entry(1, d))
			natstest.Must(t, err)
			return claim(journal.Record{Head: head}, payload)(l)
		}
	}
	for _, row := range []struct {
		name string
		leaf func(l *ledger) headlog.Leaf
		want error
	}{
		{"notary: the head", func(l *ledger) headlog.Leaf { l.extend(nil, entry(1, events.Warning{Code: "x"})); return l.leaf() }, nil},
		{"notary: another hash", func(l *ledger) headlog.Leaf {
			l.extend(nil, entry(1, events.Warning{Code: "x"}))
			leaf := l.leaf()
			leaf.Hash[0] ^= 1
			return leaf
		}, notary.ErrFalseLeaf},
		{"notary: the tombstone with which the session left", tombstone(events.SessionDeleted{MovedTo: &events.MovedTo{Cell: "b"}}), nil},
		{"notary: the tombstone of a deletion", tombstone(events.SessionDeleted{}), notary.ErrFalseLeaf},
		{"notary: a hash that a claim takes for that of a tombstone", func(l *ledger) headlog.Leaf {
			return claim(journal.Record{Head: journal.Head{Hash: events.Hash{7}}}, nil)(l)
		}, notary.ErrFalseLeaf},
		{"notary: an entry that a claim takes for a tombstone", func(l *ledger) headlog.Leaf {
			last, err := l.cell.Journal().Last(t.Context(), "s-1")
			natstest.Must(t, err)
			return claim(last, last.Payload)(l)
		}, notary.ErrFalseLeaf},
	} {
		l.begin(t)
		next, err := l.state.Append([][]byte{row.leaf(l).Text()})
		natstest.Must(t, err)
		l.commit(next)
		ctx, stop := context.WithCancel(t.Context())
		signed := int64(0)
		n, err := notary.New(l.cell, notary.Config{Signer: l.log.key, Key: key, Report: func(s notary.Status) {
			if signed = s.Published; signed >= next.Tree.Size {
				stop()
			}
		}}, zap.NewNop())
		natstest.Must(t, err)
		if err := n.Run(ctx); !errors.Is(err, row.want) || (signed >= next.Tree.Size) != (row.want == nil) {
			t.Errorf("%s: Run = %v, want %v; %d leaves are signed", row.name, err, row.want, signed)
		}
		stop()
	}
}
