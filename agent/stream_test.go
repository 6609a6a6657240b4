package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// record is a durable wrapper with stored replies and results, which calls nothing.
type record struct {
	replies []model.Reply
	result  string
}

func (r *record) CallModel(
	context.Context, model.Request, func(context.Context, model.Request) (model.Reply, error),
) (model.Reply, error) {
	rep := r.replies[0]
	r.replies = r.replies[1:]
	return rep, nil
}

func (r *record) CallTool(
	_ context.Context, c content.ToolCall, _ func(context.Context, content.ToolCall) (content.ToolResult, error),
) (content.ToolResult, error) {
	return content.NewResult(c.ID, c.Name, content.StatusOK, r.result), nil
}

// A stored reply of a durable wrapper is streamed like a new one: text,
// usage, and the whole message.
func TestAStreamShowsStoredRepliesOfTheDurableWrapper(t *testing.T) {
	t.Parallel()
	untouched := modeltest.NewFake("fake", func(context.Context, model.Request) (model.Reply, error) {
		t.Error("the provider is called")
		return model.Reply{}, nil
	})
	answer := modeltest.Text("as it was")
	answer.Usage = content.Usage{InputTokens: 10, OutputTokens: 5}
	known := &record{replies: []model.Reply{modeltest.Calls(call("c1", "echo", `{"text":"hi"}`)), answer}, result: "hi from before"}
	d := start(t, agent.Config{Model: untouched, Tools: []tool.Source{echo(t)}, Durable: known})
	var seen []string
	for ev, err := range d.Stream(t.Context(), content.UserText("go")) {
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, shown(ev))
	}
	want := []string{
		"message ", "usage 0/0", "use echo", "done hi from before",
		"text as it was", "message as it was", "usage 10/5",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("the stream shows\n%q, want\n%q", seen, want)
	}
}

func shown(ev session.StreamEvent) string {
	switch ev := ev.(type) {
	case session.TextDelta:
		return "text " + ev.Text
	case session.ReasoningDelta:
		return "reasoning " + ev.Text
	case session.ToolUse:
		return "use " + ev.Call.Name
	case session.ToolDone:
		return "done " + ev.Result.Text()
	case session.UsageUpdate:
		return fmt.Sprintf("usage %d/%d", ev.Usage.InputTokens, ev.Usage.OutputTokens)
	case session.MessageComplete:
		return "message " + ev.Item.Text()
	case session.Retry:
		return fmt.Sprintf("attempt %d", ev.Attempt)
	}
	return ""
}

// A consumer that takes a second for each delta delays nothing and misses nothing, however
// many deltas arrive meanwhile.
func TestASlowReaderOfAStreamMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pieces = 500
		text := strings.Repeat("ä", pieces)
		began := time.Now()
		var answered time.Duration
		m := talker{text, func() { answered = time.Since(began) }}
		d := start(t, agent.Config{Model: m})
		var got string
		deltas, complete := 0, 0
		for ev, err := range d.Stream(t.Context(), content.UserText("go")) {
			if err != nil {
				t.Fatal(err)
			}
			switch ev := any(ev).(type) {
			case session.TextDelta:
				got += ev.Text
				deltas++
				<-time.After(time.Second)
			case session.MessageComplete:
				complete++
			}
		}
		if got != text || deltas != pieces || complete != 1 {
			t.Errorf("%d deltas, %d messages, text of %d bytes, want %d, 1 and %d", deltas, complete, len(got), pieces, len(text))
		}
		if answered > 0 {
			t.Errorf("the model was held up for %s", answered)
		}
		if took := time.Since(began); took < pieces*time.Second {
			t.Errorf("the reader took %s, which is not slow", took)
		}
	})
}

// talker streams a text one character at a time.
type talker struct {
	text string
	done func()
}

func (talker) Name() string { return "test:talker" }

func (talker) Capabilities() model.Capabilities { return model.Capabilities{} }

func (m talker) Call(_ context.Context, _ model.Request, emit func(content.Delta)) (model.Reply, error) {
	emit(content.Delta{Op: content.BeginPart, Kind: content.TextKind})
	for _, r := range m.text {
		emit(content.Delta{Op: content.AppendPart, Kind: content.TextKind, Text: string(r)})
	}
	emit(content.Delta{Op: content.CommitPart, Kind: content.TextKind})
	m.done()
	return modeltest.Text(m.text), nil
}

// A delta is seen while the model still writes: it continues only after that.
func TestAStreamShowsDeltasBeforeTheReplyIsComplete(t *testing.T) {
	t.Parallel()
	heard := make(chan struct{})
	m := modeltest.NewFake("fake", nil)
	d := start(t, agent.Config{Model: attentive{m, heard}})
	text := ""
	for ev, err := range d.Stream(t.Context(), content.UserText("go")) {
		if err != nil {
			t.Fatal(err)
		}
		if piece, ok := ev.(session.TextDelta); ok {
			if text += piece.Text; text == "one " {
				close(heard)
			}
		}
	}
	if text != "one two" {
		t.Errorf("the stream says %q", text)
	}
}

// attentive streams a word, and the next one after a reader received it.
type attentive struct {
	model.Model
	heard chan struct{}
}

func (m attentive) Call(ctx context.Context, _ model.Request, emit func(content.Delta)) (model.Reply, error) {
	say := func(s string) { emit(content.Delta{Op: content.AppendPart, Kind: content.TextKind, Text: s}) }
	emit(content.Delta{Op: content.BeginPart, Kind: content.TextKind})
	say("one ")
	select {
	case <-m.heard:
	case <-ctx.Done():
		return model.Reply{}, context.Cause(ctx)
	}
	say("two")
	return modeltest.Text("one two"), nil
}

// A stream reports that a model call is repeated, so its reader can drop what it has shown.
func TestAStreamMarksAnotherAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, agent.Config{Model: &stuttering{}})
		var shown strings.Builder
		for ev, err := range s.Stream(t.Context(), content.UserText("go")) {
			if err != nil {
				t.Fatal(err)
			}
			switch ev := ev.(type) {
			case session.TextDelta:
				shown.WriteString(ev.Text)
			case session.Retry:
				if ev.Attempt != 2 {
					t.Errorf("attempt %d", ev.Attempt)
				}
				shown.Reset()
			case session.ReasoningDelta, session.ToolUse, session.ToolDone, session.UsageUpdate, session.MessageComplete:
			}
		}
		if shown.String() != "Hello" {
			t.Errorf("shown is %q", shown.String())
		}
	})
}

// stuttering is a model whose first attempt fails in the middle.
type stuttering struct{ attempts int }

func (*stuttering) Name() string                     { return "stuttering" }
func (*stuttering) Capabilities() model.Capabilities { return model.Capabilities{} }

func (m *stuttering) Call(_ context.Context, _ model.Request, emit func(content.Delta)) (model.Reply, error) {
	text := "Hello"
	if m.attempts++; m.attempts == 1 {
		text = "Hel"
	}
	emit(content.Delta{Op: content.BeginPart, Kind: content.TextKind})
	emit(content.Delta{Op: content.AppendPart, Kind: content.TextKind, Text: text})
	if m.attempts == 1 {
		return model.Reply{}, &model.Error{Class: content.ClassNetwork, Message: "reset"}
	}
	return modeltest.Text(text), nil
}
