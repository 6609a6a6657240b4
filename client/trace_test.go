package client_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel/trace"

	"github.com/turnlog/turnlog/audit/traces"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/session"
)

// TestATraceReachesASubAgentsTool follows a sender's trace through driver, worker, sub-agent and its tool.
func TestATraceReachesASubAgentsTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sender := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
		s := newDelegation(t, echoing)
		defer s.work("w1").Drain(t)
		defer s.drive(engine.Config{})()
		x := s.start("s", delegating, false, nil)
		if err := x.Send(trace.ContextWithSpanContext(s.Ctx, sender), session.Steer, content.UserText("go")); err != nil {
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
		if !s.traced.Equal(below.WithRemote(true)) {
			t.Errorf("the tool ran in %v, want %v", s.traced, below)
		}
	})
}
