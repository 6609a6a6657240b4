package torture

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/natscli"
	"github.com/turnlog/turnlog/internal/pause"
)

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
