package client_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"

	"github.com/turnlog/turnlog/audit/traces"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/session"
)

// with returns a context of a sender that is traced and has a baggage.
func with(ctx context.Context, t *testing.T, sender trace.SpanContext) context.Context {
	t.Helper()
	all, err := baggage.Parse("tenant=acme")
	if err != nil {
		t.Fatal(err)
	}
	return baggage.ContextWithBaggage(trace.ContextWithSpanContext(ctx, sender), all)
}

// TestATraceReachesASubAgentsTool follows a sender's trace and baggage through driver, worker, sub-agent and its tool.
func TestATraceReachesASubAgentsTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sender := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
		s := newDelegation(t, echoing)
		defer s.work("w1").Drain(t)
		defer s.drive(engine.Config{})()
		x := s.start("s", delegating, false, nil)
		if err := x.Send(with(s.Ctx, t, sender), session.Steer, content.UserText("go")); err != nil {
			t.Fatal(err)
		}
		next[*session.Finished](s.world, x)

		tracer := traces.New(traces.Config{})
		byName := map[string]traces.Span{}
		for _, id := range []content.SessionID{"s", child} {
			for _, r := range s.Records(id) {
				spans, err := tracer.Add(context.Background(), r)
				if err != nil {
					t.Fatal(err)
				}
				for _, span := range spans {
					name := strings.Fields(span.Name)[0]
					if name == "execute_tool" {
						name = span.Name
					}
					byName[string(id)+" "+name] = span
				}
			}
		}
		below := sender
		for _, name := range []string{"s invoke_agent", "s execute_tool helper", string(child) + " invoke_agent", string(child) + " execute_tool echo"} {
			span := byName[name]
			if span.Parent.SpanID() != below.SpanID() || span.SpanContext.TraceID() != sender.TraceID() {
				t.Errorf("%s is in trace %s below %s, want %s below %s", name, span.SpanContext.TraceID(), span.Parent.SpanID(), sender.TraceID(), below.SpanID())
			}
			below = span.SpanContext
		}
		if got := s.traced; !got.Span.Equal(below.WithRemote(true)) || got.Baggage != "tenant=acme" {
			t.Errorf("the tool ran in %v, want %v and a tenant", got, below)
		}
		for _, id := range []content.SessionID{"s", child} {
			for _, r := range s.Records(id) {
				if bytes.Contains(r.Payload, []byte("acme")) {
					t.Errorf("entry %d of %s has the baggage", r.Seq, id)
				}
			}
		}
	})
}
