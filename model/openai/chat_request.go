package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

func (m *Model) chatRequest(r model.Request) object {
	o := m.request(r)
	o["messages"] = m.messages(r.Transcript)
	o.Opt("reasoning_effort", m.cfg.Effort)
	if *m.cfg.Usage {
		o["stream_options"] = object{"include_usage": true}
	}
	if m.own {
		o.Opt("max_completion_tokens", m.cfg.MaxTokens)
	} else {
		o.Opt("max_tokens", m.cfg.MaxTokens) // some servers do not know the newer name
	}
	if len(r.Schema) > 0 {
		o["response_format"] = object{"type": "json_schema", "json_schema": answerFormat(r.Schema)}
	}
	return o
}

// chatWriter converts a transcript to messages. It merges neighboring items of one
// role, because the templates of many servers require that roles alternate and that
// there is one system message, at the start.
type chatWriter struct {
	m   *Model
	ids wireIDs
	out []object

	role  string
	open  [][]piece // the items of the current role
	shown []piece   // media of results, waiting for a user message
}

func (m *Model) messages(items []content.Item) []object {
	w := &chatWriter{m: m, ids: m.wireIDs(items)}
	for _, it := range items {
		if it.Kind != content.Tool {
			w.show()
		}
		switch it.Kind {
		case content.System:
			w.say("system", it)
		case content.Developer:
			w.say(w.developer(), it)
		case content.User, content.Context, content.Notification:
			w.say("user", it)
		case content.Assistant:
			w.flush()
			w.assistant(it)
		case content.Tool:
			w.flush()
			w.results(it)
		}
	}
	w.show()
	w.flush()
	return w.out
}

// developer returns the developer role, which other servers do not know.
func (w *chatWriter) developer() string {
	if w.m.own {
		return "developer"
	}
	return "system"
}

func (w *chatWriter) say(role string, it content.Item) {
	all := inputPieces(Chat, it)
	if len(all) == 0 {
		return
	}
	if role != w.role {
		w.flush()
	}
	w.role = role
	w.open = append(w.open, all)
}

// flush writes the message of the current role.
func (w *chatWriter) flush() {
	if len(w.open) == 0 {
		return
	}
	var texts []string
	var all []piece
	for _, said := range w.open {
		text, ok := textOf(said, "")
		switch {
		case ok:
			said = []piece{{text: text}}
		case w.role != "user": // only user messages may contain media
			said = slices.DeleteFunc(said, func(p piece) bool { return !p.isText() })
			text, _ = textOf(said, "")
		}
		texts = append(texts, text)
		all = append(all, said...)
	}
	message := object{"role": w.role, "content": strings.Join(texts, "\n\n")}
	if _, plain := textOf(all, ""); !plain {
		var parts []object
		for _, p := range all {
			parts = append(parts, p.chat())
		}
		message["content"] = parts
	}
	w.out = append(w.out, message)
	w.open = nil
}

// show adds the media of results to a user message, because tool messages may contain
// only text.
func (w *chatWriter) show() {
	if len(w.shown) == 0 {
		return
	}
	if w.role != "user" {
		w.flush()
	}
	w.role = "user"
	w.open = append(w.open, w.shown)
	w.shown = nil
}

func (w *chatWriter) assistant(it content.Item) {
	message := w.m.thoughts(it)
	message["role"] = "assistant"
	var text strings.Builder
	var calls []object
	for _, p := range it.Parts {
		switch p.Kind {
		case content.TextKind:
			text.WriteString(p.Text)
		case content.StructuredKind:
			text.Write(p.Data)
		case content.ToolCallKind:
			if c := p.Call; c != nil {
				calls = append(calls, object{
					"type": "function", "id": w.ids[c.ID], "function": object{"name": c.Name, "arguments": argumentsOf(*c)},
				})
			}
		case content.MediaKind, content.FileKind, content.ReasoningKind, content.ToolResultKind, content.CustomKind:
		}
	}
	message.Opt("content", text.String())
	message.Opt("tool_calls", calls)
	if text.Len() > 0 || len(calls) > 0 {
		w.out = append(w.out, message)
	}
}

// thoughts returns the reasoning to send back with a message, in its original field: signed details
// always, plain text only with calls. Some servers require it there; the others ignore it.
func (m *Model) thoughts(it content.Item) object {
	extra, calls := object{}, len(it.Calls()) > 0
	for _, p := range it.Parts {
		if p.Kind != content.ReasoningKind || p.Name != Provider || !m.owns(p) {
			continue
		}
		n := noteOf(p)
		switch {
		case p.Reasoning != nil && bytes.HasPrefix(p.Reasoning.Encrypted, []byte("[")):
			extra[detailsField] = json.RawMessage(p.Reasoning.Encrypted)
		case calls && n.Field != "" && p.Text != "":
			before, _ := extra[n.Field].(string)
			extra[n.Field] = before + p.Text
		}
	}
	return extra
}

func (w *chatWriter) results(it content.Item) {
	for _, r := range it.Results() {
		var texts []string
		var shown []piece
		for _, p := range resultPieces(Chat, r) {
			if p.isText() {
				texts = append(texts, p.text)
			} else {
				shown = append(shown, p)
			}
		}
		id := w.ids[r.CallID]
		if len(shown) > 0 {
			texts = append(texts, "\n[media follow below]")
			w.shown = append(w.shown, piece{text: "Media of the call " + id + " of " + r.Name + ":"})
			w.shown = append(w.shown, shown...)
		}
		w.out = append(w.out, object{"role": "tool", "tool_call_id": id, "content": strings.Join(texts, "")})
	}
}
