package actor_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/turnlogtest"
)

// BenchmarkFlood measures an input that a busy session refuses because its queue is full, from the
// time it is sent.
func BenchmarkFlood(b *testing.B) {
	srv, err := embedded.Start(b.Context(), embedded.WithStore(b.TempDir()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(srv.Close)
	w := turnlogtest.On(b.Context(), b, srv, admin.Config{})
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

func (*handled) SessionTaken()                                   {}
func (*handled) SessionLeft(string)                              {}
func (*handled) EntryAppended(events.Entry, bool, time.Duration) {}
func (*handled) EffectStarted(string)                            {}

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

// BenchmarkUselessWakes measures the time from a wake of a session that does not exist until a session
// that is woken afterwards has answered.
func BenchmarkUselessWakes(b *testing.B) {
	srv, err := embedded.Start(b.Context(), embedded.WithStore(b.TempDir()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(srv.Close)
	w := turnlogtest.On(b.Context(), b, srv, admin.Config{})
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

// BenchmarkOthersUnderAFlood measures how long the turns of a client take while another user, whose name
// NATS verifies, sends asks as fast as it can: each opens a session of its own, or all go to one session.
func BenchmarkOthersUnderAFlood(b *testing.B) {
	for name, session := range map[string]func(i int) content.SessionID{
		"sessions": func(i int) content.SessionID { return content.SessionID(fmt.Sprint("x", i)) },
		"one":      func(int) content.SessionID { return "x" },
	} {
		b.Run(name, func(b *testing.B) {
			srv, err := embedded.Start(b.Context(), embedded.WithStore(b.TempDir()))
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(srv.Close)
			w := turnlogtest.On(b.Context(), b, srv, admin.Config{})
			n := w.Node(actor.Config{Name: "n1"})
			flood := w.Connect()
			open := commands.OpenSession{
				Config: events.Config{Model: "scripted:test", ModelData: []byte(oneReply)}, Input: []content.Item{content.UserText("go")},
			}
			ends := make(map[content.SessionID]uint64) // of the turns
			turn := func(s content.SessionID, c commands.Command) {
				env := commands.Envelope{ID: fmt.Sprint("turn-", ends[s]), Session: s, Command: c}
				if _, err := w.Cell.Inbox().Send(b.Context(), env); err != nil {
					b.Fatal(err)
				}
				w.Cell.Runs().WakeSoon(s)
				for rec, err := range w.Cell.Journal().Follow(b.Context(), s, ends[s]) {
					if err != nil {
						b.Fatal(err)
					}
					if ends[s] = rec.Seq; slices.Contains(rec.Entry.Kinds(), events.KindTurnFinished) {
						return
					}
				}
			}
			turn("old", open)
			b.ResetTimer()
			for i := range b.N {
				id := session(i)
				raw, err := commands.Envelope{ID: fmt.Sprint("x-", i), Session: id, Command: open}.Encode()
				if err == nil {
					err = flood.Publish("turnlog.cmd."+string(id)+".ask.mallory", raw)
				}
				if err == nil {
					err = flood.Publish("turnlog.run."+string(id), nil)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			soon, cancel := context.WithTimeout(b.Context(), time.Minute)
			defer cancel()
			if err := flood.FlushWithContext(soon); err != nil {
				b.Fatal(err)
			}
			began := time.Now()
			turn("old", commands.SubmitInput{Items: open.Input})
			b.ReportMetric(time.Since(began).Seconds(), "s/old")
			began = time.Now()
			turn("new", open)
			b.ReportMetric(time.Since(began).Seconds(), "s/new")
			if name == "sessions" {
				for i := range b.N {
					w.Until(session(i), events.KindTurnFinished)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds(), "s/all")
			b.StopTimer()
			n.Drain(b)
		})
	}
}
