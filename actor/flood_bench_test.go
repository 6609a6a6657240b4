package actor_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/celltest"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// BenchmarkFlood measures an input that a busy session refuses because its queue is full, from the
// time it is sent.
func BenchmarkFlood(b *testing.B) {
	srv, err := embedded.Start(b.Context(), embedded.WithStore(b.TempDir()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(srv.Close)
	w := celltest.On(b.Context(), b, srv, admin.Config{})
	counted := &handled{}
	n := w.Node(actor.Config{Name: "n1", Metrics: counted})
	s := w.Start("s", anHour)
	if err := s.Send(b.Context(), events.Steer, content.UserText("go")); err != nil {
		b.Fatal(err)
	}
	w.Until("s", events.KindModelCallStarted)
	flood := w.Connect()
	input := commands.SubmitInput{Items: []content.Item{content.UserText("more")}, OnBusy: events.Queue}
	publish := func(from, n int) {
		for i := range n {
			raw, err := commands.Envelope{ID: fmt.Sprint("input-", from+i), Session: "s", Command: input}.Encode()
			if err != nil {
				b.Fatal(err)
			}
			if err := flood.Publish("turnlog.cmd.s.ask", raw); err != nil {
				b.Fatal(err)
			}
		}
		soon, cancel := context.WithTimeout(b.Context(), time.Minute)
		defer cancel()
		if err := flood.FlushWithContext(soon); err != nil {
			b.Fatal(err)
		}
	}
	const queued = 300 // more than the session keeps
	publish(0, queued)
	counted.wait(queued)
	b.ResetTimer()
	publish(queued, b.N)
	counted.wait(queued + b.N)
	b.StopTimer()
	n.Drain(b)
}

// handled counts the inputs that were accepted or refused.
type handled struct {
	actor.Metrics

	inputs atomic.Int64
}

func (*handled) SessionTaken()                    {}
func (*handled) SessionLeft(string)               {}
func (*handled) EntryAppended(int, time.Duration) {}
func (*handled) EffectStarted(string)             {}

func (h *handled) CommandHandled(name, _ string) {
	if name == "submit_input" {
		h.inputs.Add(1)
	}
}

// wait returns once n inputs and the first one were handled.
func (h *handled) wait(n int) {
	for h.inputs.Load() < int64(n)+1 {
		<-time.After(time.Millisecond)
	}
}

// BenchmarkUselessWakes measures a wake of a session that does not exist, until a session that is woken
// after it has answered.
func BenchmarkUselessWakes(b *testing.B) {
	srv, err := embedded.Start(b.Context(), embedded.WithStore(b.TempDir()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(srv.Close)
	w := celltest.On(b.Context(), b, srv, admin.Config{})
	n := w.Node(actor.Config{Name: "n1"})
	flood := w.Connect()
	b.ResetTimer()
	for i := range b.N {
		if err := flood.Publish(fmt.Sprint("turnlog.run.x", i), nil); err != nil {
			b.Fatal(err)
		}
	}
	soon, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	if err := flood.FlushWithContext(soon); err != nil {
		b.Fatal(err)
	}
	s := w.Start("s", oneReply)
	if err := s.Send(b.Context(), events.Steer, content.UserText("go")); err != nil {
		b.Fatal(err)
	}
	w.Until("s", events.KindTurnFinished)
	b.StopTimer()
	n.Drain(b)
}
