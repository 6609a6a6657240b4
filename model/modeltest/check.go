package modeltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

func checkReply(t testing.TB, o observed) {
	t.Helper()
	r := o.reply
	for i, it := range r.Items {
		if it.Kind != content.Assistant {
			t.Errorf("item %d of the reply is of kind %q, want assistant", i, it.Kind)
		}
	}
	u := r.Usage
	for _, n := range []int64{
		u.InputTokens, u.OutputTokens, u.ReasoningTokens, u.CacheReadTokens, u.CacheWriteTokens, u.CostMicros,
	} {
		if n < 0 {
			t.Errorf("usage %+v has a negative count", u)
		}
	}
	checkFinish(t, r)
}

func checkFinish(t testing.TB, r model.Reply) {
	t.Helper()
	calls := len(callsOf(r))
	switch {
	case r.FinishReason != "" && !slices.Contains(model.FinishReasons(), r.FinishReason):
		t.Errorf("finish reason %q is not one of replies", r.FinishReason)
	case r.FinishReason == content.ToolCalls && calls == 0:
		t.Error("finish reason is tool_call, but the reply has no calls")
	case r.FinishReason == content.Completed && calls > 0:
		t.Errorf("finish reason is completed, but the reply has %d calls, which would not run", calls)
	}
}

func callsOf(r model.Reply) []content.ToolCall {
	var calls []content.ToolCall
	for _, it := range r.Items {
		calls = append(calls, it.Calls()...)
	}
	return calls
}

func checkCalls(t testing.TB, o observed) {
	t.Helper()
	for i, c := range callsOf(o.reply) {
		if c.Name == "" {
			t.Errorf("call %d has no name", i)
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(c.Input, &object); err != nil || object == nil {
			t.Errorf("call %d (%s) has input %q, want a JSON object: %v", i, c.Name, c.Input, err)
		}
	}
}

func checkGoroutine(t testing.TB, o observed) {
	t.Helper()
	for _, id := range o.emits {
		if id != o.caller {
			t.Errorf("deltas came from goroutine %s, the caller is %s", id, o.caller)
		}
	}
}

// goroutine returns the id of the current goroutine, which only stack traces contain.
func goroutine() string {
	buf := make([]byte, 64)
	buf = buf[:runtime.Stack(buf, false)]
	id, _, _ := bytes.Cut(bytes.TrimPrefix(buf, []byte("goroutine ")), []byte(" "))
	return string(id)
}

// streamed is one part according to its deltas.
type streamed struct {
	kind      content.PartKind
	text      strings.Builder
	call      *content.ToolCall // from the begin delta
	final     *content.ToolCall // from the commit delta
	committed bool
}

func checkDeltas(t testing.TB, o observed) {
	t.Helper()
	parts := gather(t, o.deltas)
	var want []content.Part
	for _, it := range o.reply.Items {
		want = append(want, it.Parts...)
	}
	if len(parts) != len(want) {
		t.Fatalf("deltas begin %d parts, the reply has %d", len(parts), len(want))
	}
	for i, p := range want {
		comparePart(t, i, parts[i], p)
	}
}

// gather adds up the deltas and checks their order.
func gather(t testing.TB, all []content.Delta) []*streamed {
	t.Helper()
	var parts []*streamed
	for _, d := range all {
		if d.Op == content.BeginPart {
			if d.Part != len(parts) {
				t.Fatalf("part %d begins after %d parts", d.Part, len(parts))
			}
			parts = append(parts, &streamed{kind: d.Kind, call: d.Call})
			continue
		}
		if d.Part < 0 || d.Part >= len(parts) {
			t.Fatalf("%s of part %d, which has not started", d.Op, d.Part)
		}
		p := parts[d.Part]
		if p.committed {
			t.Fatalf("%s of part %d, which is committed", d.Op, d.Part)
		}
		switch d.Op {
		case content.AppendPart:
			p.text.WriteString(d.Text)
		case content.CommitPart:
			p.committed, p.final = true, d.Call
		default:
			t.Fatalf("delta of part %d has the unknown operation %q", d.Part, d.Op)
		}
	}
	return parts
}

func comparePart(t testing.TB, i int, got *streamed, want content.Part) {
	t.Helper()
	if !got.committed {
		t.Errorf("part %d was never committed", i)
	}
	if got.kind != want.Kind {
		t.Errorf("part %d began as %q, the reply has %q", i, got.kind, want.Kind)
	}
	if want.Call == nil {
		if got.text.String() != want.Text {
			t.Errorf("part %d: deltas add up to %q, the reply has %q", i, got.text.String(), want.Text)
		}
		return
	}
	if got.call == nil || got.call.Name != want.Call.Name {
		t.Errorf("part %d: the call began as %+v, the reply has %q", i, got.call, want.Call.Name)
	}
	if !reflect.DeepEqual(got.final, want.Call) {
		t.Errorf("part %d: call %+v was committed, the reply has %+v", i, got.final, want.Call)
	}
	if text := got.text.String(); json.Valid([]byte(text)) && text != string(want.Call.Input) {
		t.Errorf("part %d: arguments add up to %q, the reply has %q", i, text, want.Call.Input)
	}
}

func checkError(t testing.TB, err error) {
	t.Helper()
	e, ok := errors.AsType[*model.Error](err)
	if !ok {
		t.Errorf("the failure is a %T, want a *model.Error: %v", err, err)
		return
	}
	if e.Message == "" {
		t.Errorf("the failure has no message: %#v", e)
	}
	if e.RetryAfter < 0 {
		t.Errorf("the failure may be retried after %s", e.RetryAfter)
	}
	if !slices.Contains(model.ErrorClasses(), e.Class) {
		t.Errorf("the failure has the unknown class %q", e.Class)
	}
}
