package modeltest

import (
	"context"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/deltas"
	"github.com/turnlog/turnlog/model"
)

// ReplyFunc replies to one request.
type ReplyFunc func(ctx context.Context, r model.Request) (model.Reply, error)

// Fake is a model from a function, for tests of code that calls models. It streams the
// function's reply part by part.
type Fake struct {
	name  string
	reply ReplyFunc
}

// NewFake returns a model that replies with f.
func NewFake(name string, f ReplyFunc) *Fake { return &Fake{name: name, reply: f} }

// Name returns the name given to NewFake.
func (f *Fake) Name() string { return f.name }

// Capabilities reports support for everything.
func (f *Fake) Capabilities() model.Capabilities {
	return model.Capabilities{
		Tools: true, Parallel: true, Reasoning: true, Media: true, OutputSchema: true, PromptCache: true,
	}
}

// Call runs the function and streams its reply.
func (f *Fake) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	if ctx.Err() != nil {
		return model.Reply{}, context.Cause(ctx)
	}
	reply, err := f.reply(ctx, r)
	if err != nil {
		return reply, err
	}
	return reply, deltas.Stream(ctx, reply.Items, 0, emit)
}

// Text returns a reply with one text part.
func Text(text string) model.Reply {
	return model.Reply{Items: []content.Item{content.AssistantText(text)}, FinishReason: content.Completed}
}

// Calls returns a reply with the calls.
func Calls(calls ...content.ToolCall) model.Reply {
	item := content.Item{Kind: content.Assistant}
	for _, c := range calls {
		item.Parts = append(item.Parts, content.CallPart(c))
	}
	return model.Reply{Items: []content.Item{item}, FinishReason: content.ToolCalls}
}
