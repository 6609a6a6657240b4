package torture

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/natscli"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream/trials"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// The first turn of each session takes longer than the faults and makes no call.
const slow = `
replies:
  - {text: let me think, delay: 5s}
  - {calls: [{name: torture_read, input: {ms: 1}}]}
  - {text: done}
repeat: true
`

func TestARunThatIsSlowStillDoesEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		r, err := Run(t.Context(), Config{
			Seed: 1, Duration: time.Second, Sessions: 3, Server: srv, Dir: t.TempDir(), Kinds: []Kind{ConnectionsCut},
			Workload: Workload{Config: func(content.SessionID) events.Config {
				return events.Config{Model: "scripted:slow", ModelData: []byte(slow)}
			}},
			OnFault: func(f Fault) { t.Log(f) },
		})
		if err != nil {
			t.Fatal(err)
		}
		if r.Calls < 3 || r.Faults[ConnectionsCut] == 0 || !r.OK() {
			t.Errorf("Run = %+v, want a call for each of three sessions", r)
		}
		synctest.Wait()
	})
}

// Streams that lose everything, and hostile senders, in virtual time.
func TestStreamsGoBackAmongHostileSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		r, err := Run(t.Context(), Config{
			Seed: 1, Duration: 14 * time.Second, Sessions: 4, Nodes: 2, Workers: 2, Server: srv, Dir: t.TempDir(),
			Kinds: []Kind{StreamRolledBack, HostileSender}, OnFault: func(f Fault) { t.Log(f) },
		})
		if err != nil {
			t.Fatal(err)
		}
		if r.Faults[StreamRolledBack] < 5 || r.Faults[HostileSender] < 5 || r.Repeated == 0 || r.SessionsFinished < r.SessionsTotal || !r.OK() {
			t.Errorf("Run = %+v, want many faults and no violation", r)
		}
		synctest.Wait()
	})
}

func TestTheOperatorRetriesWhatIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		g, err := newSite(ctx, Config{Replicas: 1, Server: natstest.Start(t), Logger: zap.NewNop()}, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.direct.Close)
		note := trials.Trial{Session: "s", Broke: []trials.Breakage{{Node: "n1"}, {Node: "n2"}}}
		if _, err := trials.Of(g.cell).Put(ctx, note); err != nil {
			t.Fatal(err)
		}
		w := &world{site: g, log: newFindings()}
		w.operate(ctx)
		if again, err := trials.Of(g.cell).Get(t.Context(), "s"); err != nil || again.Aside() || w.aside.count() != 1 {
			t.Errorf("the note is %+v, %v, and %d sessions were retried", again, err, w.aside.count())
		}
	})
}

func TestARunThatIsGivenUpEarlyLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	srv, err := embedded.Start(t.Context(), embedded.WithListener("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	nc, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	ctx, giveUp := context.WithCancel(t.Context())
	t.Cleanup(giveUp)
	if _, err := nc.Subscribe("$JS.EVENT.ADVISORY.STREAM.CREATED.*", func(*nats.Msg) { giveUp() }); err != nil {
		t.Fatal(err)
	}
	natstest.Must(t, nc.FlushWithContext(natstest.Within(t, time.Minute)))
	r, err := Run(ctx, Config{
		Seed: 1, Duration: time.Minute, Sessions: 1, Nodes: 1, Workers: 1, Dir: t.TempDir(),
		Servers: &natscli.Flags{Server: srv.ClientURL()}, Kinds: []Kind{ConnectionsCut},
	})
	if err == nil {
		t.Errorf("Run = %+v although it was given up while it set up its streams", r)
	}
	names, err := nc.RequestWithContext(t.Context(), "$JS.API.STREAM.NAMES", nil)
	if err != nil || strings.Contains(strings.ToLower(string(names.Data)), "torture") {
		t.Errorf("streams are left: %s, %v", names.Data, err)
	}
}

// An observer that looked through a writer's connection would see nothing more when
// the writers leave, which they do before the observers are asked what they saw.
func TestObserversContinueWithoutWriters(t *testing.T) {
	t.Parallel()
	srv, err := embedded.Start(t.Context(), embedded.WithListener("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	g, err := newSite(ctx, Config{Replicas: 1, Servers: &natscli.Flags{Server: srv.ClientURL()}, Logger: zap.NewNop()}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.direct.Close)
	w := &world{site: g, ledger: newLedger(), log: newFindings()}
	t.Cleanup(func() { w.dismiss(context.WithoutCancel(ctx)) })
	if err := w.watch(ctx); err != nil {
		t.Fatal(err)
	}
	w.leave(ctx, w.writerProcs)
	w.writerProcs = nil

	late := newWriter("late", w.log)
	writing, stop := context.WithCancel(ctx)
	defer stop()
	var end sync.WaitGroup
	end.Go(func() { late.write(writing, g.cell.Journal()) })
	for n, o := range w.observers {
		for !late.seenBy(o) {
			if !pause.For(ctx, 10*time.Millisecond) {
				t.Fatalf("observer %d saw nothing of what was written when the other writers had left", n+1)
			}
		}
	}
	stop()
	end.Wait()
	if found, _ := w.log.all(); len(found) > 0 {
		t.Errorf("violations: %v", found)
	}
}

// seenBy reports whether an observer has seen something that was acknowledged to the writer.
func (w *writer) seenBy(o *observer) bool {
	last := o.of(writerSession).last()
	w.mu.Lock()
	defer w.mu.Unlock()
	for seq := range w.acked {
		if seq <= last {
			return true
		}
	}
	return false
}
