package render

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/turnlog/turnlog/content"
)

const indent = "    "

// Transcript writes items as numbered blocks of text. Patched has the arguments with which calls ran
// instead of the model's.
func Transcript(w io.Writer, style Style, items []content.Item, patched map[content.CallID]json.RawMessage) error {
	for i, it := range items {
		block := style.item(i+1, it, patched)
		if i > 0 {
			block = "\n" + block
		}
		if _, err := io.WriteString(w, block); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	return nil
}

func (s Style) item(n int, it content.Item, patched map[content.CallID]json.RawMessage) string {
	head := s.Dim(fmt.Sprintf("[%d]", n)) + " " + s.paint(kindColor(it.Kind), s.Line(string(it.Kind)))
	if it.CreatedAt != 0 {
		head += "  " + s.Dim(it.CreatedAt.Std().Format(timeLayout))
	}
	cost := ""
	if it.Usage != nil {
		cost = usage(*it.Usage)
	}
	if about := s.list("", it.FinishReason, "", cost); about != "" {
		head += "  " + s.Dim(about)
	}
	return s.parts(head+"\n", it.Parts) + s.patches(it.Calls(), patched)
}

// patches shows the arguments with which calls ran instead of the model's.
func (s Style) patches(calls []content.ToolCall, patched map[content.CallID]json.RawMessage) string {
	var out strings.Builder
	for _, c := range calls {
		if args, ok := patched[c.ID]; ok {
			out.WriteString(indent + s.Bad("patched by its approver:") + " " + s.Line(compact(args)) + "  " + s.Dim(s.list("", c.ID)) + "\n")
		}
	}
	return out.String()
}

// parts shows parts below their head.
func (s Style) parts(head string, parts []content.Part) string {
	var out strings.Builder
	out.WriteString(head)
	for _, p := range parts {
		out.WriteString(s.part(p))
	}
	return out.String()
}

func kindColor(k content.Kind) color {
	switch k {
	case content.User:
		return green
	case content.Assistant:
		return bold
	case content.Tool:
		return cyan
	case content.Notification:
		return yellow
	default:
		return blue
	}
}

func (s Style) part(p content.Part) string {
	switch p.Kind {
	case content.TextKind:
		return s.block(p.Text, indent)
	case content.ReasoningKind:
		if p.Text == "" {
			return indent + s.Dim("(reasoning that is not shown)") + "\n"
		}
		return indent + s.Dim("(reasoning)") + "\n" + s.block(p.Text, indent)
	case content.StructuredKind, content.CustomKind:
		return s.block(compact(p.Data), indent)
	case content.ToolCallKind:
		if p.Call != nil {
			return indent + "→ " + s.call(*p.Call) + "  " + s.Dim(s.list("", p.Call.ID)) + "\n"
		}
	case content.ToolResultKind:
		if p.Result != nil {
			return s.result(*p.Result)
		}
	case content.MediaKind, content.FileKind:
		return indent + "[" + s.Line(mediaName(p)) + "]\n"
	}
	return ""
}

func (s Style) result(r content.ToolResult) string {
	head := indent + "← " + s.paint(cyan, s.Line(r.Name)) + " " + s.status(r.Status) + "  " + s.Dim(s.list("", r.CallID)) + "\n"
	return s.parts(head, r.Output)
}
