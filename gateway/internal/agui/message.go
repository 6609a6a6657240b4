package agui

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway/internal/stream"
)

// growing is a part of a reply that is open.
type growing struct {
	kind   content.PartKind
	id     string // ID of its message or of the call
	parent string // for a call, the ID of its message
	tool   string
	text   strings.Builder
	within Event  // the event that holds its text
	key    string // the key of the text in within
}

// find returns the message with an ID; nil: there is none.
func (r *Run) find(id string) Event {
	for _, m := range slices.Backward(r.messages) {
		if m["id"] == id {
			return m
		}
	}
	return nil
}

func (r *Run) add(m Event) Event {
	r.messages = append(r.messages, m)
	return m
}

// grow handles a piece of a reply. The protocol supports text, reasoning and calls.
func (r *Run) grow(e stream.Grown) {
	p := e.Piece
	switch p.Op {
	case content.BeginPart:
		r.begin(p, e.Call)
	case content.AppendPart:
		r.append(p.Text)
	case content.CommitPart:
		r.close()
	}
}

// begin begins a part. One message holds the calls of an attempt, and also the first text if it comes before them.
func (r *Run) begin(p stream.Piece, call *stream.ToolCall) {
	id := fmt.Sprintf("t%d-r%d-a%d", p.Turn.Number(), p.Round, p.Attempt)
	m := r.find(id)
	g := &growing{kind: p.Kind, id: id, key: "content"}
	switch {
	case call != nil:
		if m == nil {
			m = r.add(Event{"id": id, "role": "assistant"})
		}
		g.id, g.parent, g.tool, g.key = string(call.Place), id, p.Tool, "arguments"
		g.within = Event{"name": p.Tool, "arguments": ""}
		calls, _ := m["toolCalls"].([]Event)
		m["toolCalls"] = append(calls, Event{"id": call.Place, "type": "function", "function": g.within})
	case p.Kind == content.TextKind:
		if m != nil {
			g.id += fmt.Sprintf("-p%d", p.Part)
		}
		g.within = r.add(Event{"id": g.id, "role": "assistant", "content": ""})
	case p.Kind == content.ReasoningKind:
		g.id += fmt.Sprintf("-p%d", p.Part)
		g.within = r.add(Event{"id": g.id, "role": "reasoning", "content": ""})
	default:
		return
	}
	r.growing = g
	r.announce()
}

// announce yields the event for the beginning or the continuation of the open part.
func (r *Run) announce() {
	switch g := r.growing; {
	case g.parent != "":
		r.put("TOOL_CALL_START", Event{"toolCallId": g.id, "toolCallName": g.tool, "parentMessageId": g.parent})
	case g.kind == content.ReasoningKind:
		r.put("REASONING_START", Event{"messageId": g.id})
		r.put("REASONING_MESSAGE_START", Event{"messageId": g.id, "role": "reasoning"})
	default:
		r.put("TEXT_MESSAGE_START", Event{"messageId": g.id, "role": "assistant"})
	}
}

func (r *Run) append(text string) {
	g := r.growing
	if g == nil {
		return
	}
	g.text.WriteString(text)
	g.within[g.key] = g.text.String()
	switch {
	case g.parent != "":
		r.put("TOOL_CALL_ARGS", Event{"toolCallId": g.id, "delta": text})
	case g.kind == content.ReasoningKind:
		r.put("REASONING_MESSAGE_CONTENT", Event{"messageId": g.id, "delta": text})
	default:
		r.put("TEXT_MESSAGE_CONTENT", Event{"messageId": g.id, "delta": text})
	}
}

// close ends the open part.
func (r *Run) close() {
	g := r.growing
	if g == nil {
		return
	}
	r.growing = nil
	switch {
	case g.parent != "":
		r.put("TOOL_CALL_END", Event{"toolCallId": g.id})
	case g.kind == content.ReasoningKind:
		r.put("REASONING_MESSAGE_END", Event{"messageId": g.id})
		r.put("REASONING_END", Event{"messageId": g.id})
	default:
		r.put("TEXT_MESSAGE_END", Event{"messageId": g.id})
	}
}

// calledIn returns the message with a call, as an index of messages or -1, and the call in it.
func (r *Run) calledIn(c *stream.ToolCall) (int, Event) {
	for i, m := range slices.Backward(r.messages) {
		calls, _ := m["toolCalls"].([]Event)
		for _, call := range calls {
			if call["id"] == c.Place {
				return i, call
			}
		}
	}
	return -1, nil
}

// patch replaces the model's arguments with a person's. The protocol can express this only with a snapshot.
func (r *Run) patch(c *stream.ToolCall) {
	if _, call := r.calledIn(c); call != nil {
		call["function"] = Event{"name": c.Tool, "arguments": c.Input()}
		r.put("MESSAGES_SNAPSHOT", Event{"messages": r.messages})
	}
}

// answer handles the result of a call. Results follow the message with the call.
func (r *Run) answer(c *stream.ToolCall, text string) {
	m := Event{"id": string(c.Place) + "-result", "role": "tool", "toolCallId": c.Place, "content": text}
	i, _ := r.calledIn(c)
	i++
	for i < len(r.messages) && r.messages[i]["role"] == "tool" {
		i++
	}
	r.messages = slices.Insert(r.messages, i, m)
	r.put("TOOL_CALL_RESULT", Event{"messageId": m["id"], "toolCallId": c.Place, "content": text, "role": "tool"})
}

// onInput handles users' messages before a turn.
func (r *Run) onInput(e events.InputAccepted, cause string, before int) (out []Event) {
	for i, it := range e.Items {
		if it.Kind == content.User {
			out = append(out, r.add(Event{"id": stream.MessageID(cause, before+i), "role": "user", "content": contentOf(it)}))
		}
	}
	return out
}

// join handles a user's message during the turn.
func (r *Run) join(e stream.Joined) {
	for _, m := range r.onInput(e.Input, e.Cause, e.Before) {
		text, ok := m["content"].(string)
		if !ok {
			r.put("MESSAGES_SNAPSHOT", Event{"messages": r.messages})
			return
		}
		r.put("TEXT_MESSAGE_START", Event{"messageId": m["id"], "role": "user"})
		r.put("TEXT_MESSAGE_CONTENT", Event{"messageId": m["id"], "delta": text})
		r.put("TEXT_MESSAGE_END", Event{"messageId": m["id"]})
	}
}

// contentOf returns the content of a user's message: a text, or a list of parts.
func contentOf(it content.Item) any {
	if len(it.Parts) == 1 && it.Parts[0].Kind == content.TextKind {
		return it.Text()
	}
	out := []Event{}
	for _, p := range it.Parts {
		if p.Kind == content.TextKind {
			out = append(out, Event{"type": "text", "text": p.Text})
		}
		if p.Media == nil {
			continue
		}
		kind := p.Media.Modality
		if !slices.Contains([]string{"image", "audio", "video"}, kind) {
			kind = "document"
		}
		source := Event{"type": "url", "value": p.Media.URI, "mimeType": p.Media.MIME}
		if len(p.Media.Bytes) > 0 {
			source["type"], source["value"] = "data", base64.StdEncoding.EncodeToString(p.Media.Bytes)
		}
		out = append(out, Event{"type": kind, "source": source})
	}
	return out
}
