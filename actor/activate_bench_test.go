package actor_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/loop/snapshot"
)

// longLived is a session with that many entries: turns of ten rounds with one tool call each, two
// entries per round. If compacted, its transcript is emptied at times, as with any model that has
// a limited context.
type longLived struct {
	b       *testing.B
	cell    *jetstream.Cell
	state   *loop.State
	head    journal.Head
	journal *jetstream.Journal
	taken   *events.SnapshotTaken // by the next entry
}

func newLongLived(b *testing.B, cell *jetstream.Cell, id content.SessionID, entries int, compacted bool) *longLived {
	b.Helper()
	l := &longLived{b: b, cell: cell, state: loop.New(id), journal: cell.Journal()}
	l.send(commands.Claim{Node: "n"})
	cfg := events.Config{Model: "m"}
	if compacted {
		cfg.Mutators = []events.Registration{{Name: "compact", Points: []string{"before_model"}}}
	}
	l.send(commands.OpenSession{Config: cfg})
	for round := 0; l.head.Seq < uint64(entries); round++ {
		if round%10 == 0 {
			if l.state.Turn != nil {
				l.compact(false)
				l.reply(content.NewItem(content.Assistant, content.TextPart("done")))
			}
			l.send(commands.SubmitInput{Items: []content.Item{content.UserText("go on with the next one, please")}})
		}
		l.compact(round%200 == 0)
		l.reply(content.NewItem(content.Assistant, content.CallPart(content.ToolCall{Name: "read", Input: []byte(`{"path":"a.go"}`)})))
		c := l.state.Turn.Calls[0]
		done := commands.ReportResult{Place: c.Place, Attempt: 1, Queue: "default"}
		done.Outcome.Result = content.NewResult(c.ID, c.Name, content.StatusOK, "package a // and a little more of it")
		l.send(done)
	}
	return l
}

// compact answers a pending mutator.
func (l *longLived) compact(dirty bool) {
	for _, e := range loop.Pending(l.state) {
		m, ok := e.(loop.RunMutator)
		if !ok {
			continue
		}
		r := commands.ReportMutation{Turn: m.Turn, Round: m.Round}
		r.Finished = events.MutationFinished{Turn: m.Turn, Mutator: m.Mutator, Point: m.Point, Dirty: dirty}
		if dirty {
			r.Finished.Replacement = []content.Item{content.UserText("a summary of the work so far")}
		}
		l.send(r)
	}
}

func (l *longLived) reply(it content.Item) {
	turn := l.state.Turn
	l.send(commands.ReportReply{
		ModelCall: commands.ModelCall{Turn: turn.ID, Round: turn.Round, Attempt: turn.Attempt}, Items: []content.Item{it},
		Usage:   content.Usage{InputTokens: 100, OutputTokens: 10},
		Routing: []content.Routing{{Known: true, Queue: "default"}},
		Checks:  []commands.Check{{Place: content.PlaceOf(turn.N, turn.Round, 1)}},
	})
}

func (l *longLived) send(c commands.Command) {
	l.b.Helper()
	env := commands.Envelope{ID: fmt.Sprint("c", l.head.Seq), Session: l.state.Session, At: content.Time(l.head.Seq), Command: c, Snapshot: l.taken}
	l.taken = nil
	evs, err := loop.Decide(l.state, env)
	if err != nil || len(evs) == 0 {
		l.b.Fatalf("Decide(%s) = %d events, %v", commands.NameOf(c), len(evs), err)
	}
	e := events.Entry{Session: l.state.Session, Cause: env.ID, At: env.At, Epoch: 1, Events: evs}
	if l.head, err = l.journal.Append(l.b.Context(), l.head, e); err != nil {
		l.b.Fatal(err)
	}
	e.Seq = l.head.Seq
	l.state.Fold(e)
}

// snapshot stores a snapshot of the state, which the next entry confirms, and returns its size.
func (l *longLived) snapshot() (size int) {
	l.b.Helper()
	var e snapshot.Encoder
	index, err := e.Encode(l.state, func(digest events.Hash, chunk []byte) error {
		size += len(chunk)
		return l.cell.Snapshots().Keep(l.b.Context(), l.state.Session, digest, chunk)
	})
	if err == nil {
		err = l.cell.Snapshots().Put(l.b.Context(), l.state.Session, journal.Snapshot{Head: l.head, State: index})
	}
	if err != nil {
		l.b.Fatal(err)
	}
	l.taken = &events.SnapshotTaken{Format: snapshot.Version, Digest: events.HashOf(index)}
	l.send(commands.SetNextTurnCache{})
	return size + len(index)
}

// cpuTime is the CPU time of the process, which does not depend on other load.
func cpuTime(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkActivate measures how long a driver takes to read a session of 100,000 entries: the
// whole journal, and from a snapshot with the average share of the journal after it.
func BenchmarkActivate(b *testing.B) {
	const entries = 100_000
	srv, err := embedded.Start(b.Context(), embedded.WithStore(b.TempDir()), embedded.WithListener("127.0.0.1:0"))
	if err != nil {
		b.Fatal(err)
	}
	defer srv.Close()
	nc, err := srv.Connect()
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	cell, err := jetstream.Open(nc, "")
	if err != nil {
		b.Fatal(err)
	}
	if err := admin.Of(cell).Provision(b.Context(), admin.Config{}); err != nil {
		b.Fatal(err)
	}
	for _, compacted := range []bool{true, false} {
		kind := map[bool]string{true: "compacted", false: "whole"}[compacted]
		l := newLongLived(b, cell, content.SessionID(kind), entries, compacted)
		hydrate := func(b *testing.B) {
			var each []float64
			before := cpuTime(b)
			for b.Loop() {
				began := time.Now()
				s, err := actor.Hydrate(b.Context(), cell, l.state.Session)
				if err != nil || s.Seq != l.state.Seq || len(s.Transcript) != len(l.state.Transcript) {
					b.Fatalf("Hydrate = %+v, %v", s, err)
				}
				each = append(each, time.Since(began).Seconds()*1000)
			}
			b.ReportMetric((cpuTime(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/activation") // including the server's
			slices.Sort(each)
			b.ReportMetric(each[0], "ms-shortest")
			b.ReportMetric(each[len(each)/2], "ms-median")
		}
		b.Run(kind+"/fold", hydrate)
		size := l.snapshot()
		b.Run(kind+"/snapshot", func(b *testing.B) {
			hydrate(b)
			b.ReportMetric(float64(size), "snapshot-bytes")
		})
	}
}
