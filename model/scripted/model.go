package scripted

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/deltas"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/internal/textfile"
	"github.com/turnlog/turnlog/model"
)

// Model replies from a script. It is safe for concurrent use.
type Model struct {
	name   string
	source []byte
	script script
}

// Parse parses a script. The name appears in errors, and its last element in the
// model's name. It need not be a file.
func Parse(name string, data []byte) (*Model, error) {
	if name == "" {
		name = "script"
	}
	s, err := parse(name, data)
	if err != nil {
		return nil, err
	}
	return &Model{name: "scripted:" + filepath.Base(name), source: bytes.Clone(data), script: s}, nil
}

// maxFile is the size limit of a script in a file.
const maxFile = 16 << 20

// Load parses the script in a file.
func Load(path string) (*Model, error) {
	data, err := textfile.ReadFile(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}
	return Parse(path, data)
}

// Name returns scripted: and the last element of the script's name.
func (m *Model) Name() string { return m.name }

// Source returns the exact bytes of the script.
func (m *Model) Source() []byte { return bytes.Clone(m.source) }

// Capabilities reports what scripts can express.
func (m *Model) Capabilities() model.Capabilities {
	return model.Capabilities{Tools: true, Parallel: true, Reasoning: true}
}

// Call returns the next reply of the script. It fails if the script says so, with class
// exhausted if no reply is left, and with class invalid_request if a template fails.
func (m *Model) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	given, turn := assistants(r.Transcript)
	rep, err := m.pick(given, turn)
	if err != nil {
		return model.Reply{}, err
	}
	if rep.Delay > 0 {
		pause.For(ctx, time.Duration(rep.Delay))
	}
	if ctx.Err() != nil {
		return model.Reply{}, context.Cause(ctx)
	}
	if f := rep.Failure; f != nil && (f.Attempts == 0 || r.Attempt <= int(f.Attempts)) {
		return model.Reply{}, &model.Error{
			Class: f.Class, Code: string(f.Code), Message: cmp.Or(string(f.Message), "the script says so"), RetryAfter: time.Duration(f.RetryAfter),
		}
	}
	b := newBudget(ctx)
	item, err := rep.item(b, given+1, viewOf(r.Transcript, b))
	if ctx.Err() != nil {
		return model.Reply{}, context.Cause(ctx)
	}
	if err != nil {
		return model.Reply{}, &model.Error{Class: content.ClassInvalid, Code: "template", Message: m.name + ": " + err.Error()}
	}
	items := []content.Item{item}
	if err := deltas.Stream(ctx, items, int(min(rep.Chunk, maxSize)), emit); err != nil {
		return model.Reply{}, err
	}
	return model.Reply{
		Items:        items,
		Usage:        content.Usage{InputTokens: int64(rep.Usage.Input), OutputTokens: int64(rep.Usage.Output)},
		FinishReason: rep.finishReason(),
		Model:        m.name,
		ResponseID:   fmt.Sprintf("scripted_%d", given+1),
	}, nil
}

// assistants counts the replies in a transcript, and those since the last input.
func assistants(transcript []content.Item) (all, turn int) {
	for _, it := range transcript {
		switch it.Kind {
		case content.Assistant:
			all, turn = all+1, turn+1
		case content.User:
			turn = 0
		default:
		}
	}
	return all, turn
}

// maxRounds is how often a reply with calls is repeated without new input. Nothing else ends such a turn, not
// even failing calls, for example if the tool is missing.
const maxRounds = 200

// pick returns the reply after given replies in all, turn of them since the last input.
func (m *Model) pick(given, turn int) (reply, error) {
	all := m.script.Replies
	if given < len(all) {
		return all[given], nil
	}
	var why string
	last := all[len(all)-1]
	switch repeats := min(turn, given-len(all)); {
	case !m.script.Repeat:
		why = fmt.Sprintf("the script is exhausted: it has no reply %d; add one, or end the script with repeat: true", given+1)
	case len(last.Calls) > 0 && repeats >= maxRounds:
		why = fmt.Sprintf("the last reply was repeated %d times without new input, and its calls would go on: end the script with a reply without calls",
			repeats)
	default:
		return last, nil
	}
	return reply{}, &model.Error{Class: content.ClassExhausted, Message: m.name + ": " + why}
}

// item renders a reply, which has this number in its session.
func (r reply) item(b *budget, number int, data view) (content.Item, error) {
	item := content.Item{Kind: content.Assistant}
	if r.Reasoning != "" {
		item.Parts = append(item.Parts, content.Part{Kind: content.ReasoningKind, Text: string(r.Reasoning)})
	}
	if r.Text != nil {
		s, err := r.Text.render(b, data)
		if err != nil {
			return content.Item{}, err
		}
		item.Parts = append(item.Parts, content.TextPart(s))
	}
	for i, c := range r.Calls {
		input, err := c.Input.render(b, data)
		if err != nil {
			return content.Item{}, err
		}
		id := cmp.Or(string(c.ID), fmt.Sprintf("call_%d_%d", number, i+1))
		item.Parts = append(item.Parts, content.CallPart(content.ToolCall{Name: string(c.Name), Input: input, ProviderID: id}))
	}
	return item, nil
}

func (r reply) finishReason() content.FinishReason {
	switch {
	case r.Finish != "":
		return r.Finish
	case len(r.Calls) > 0:
		return content.ToolCalls
	}
	return content.Completed
}
