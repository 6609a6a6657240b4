package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// call shows a tool call: its name and its arguments.
func (s Style) call(c content.ToolCall) string {
	out := s.paint(cyan, s.Line(c.Name))
	if args := compact(c.Input); args != "" && args != "{}" {
		out += " " + s.Line(args)
	}
	return out
}

// resultLine shows the result of a tool call: tool, status, duration if known, and the start of the
// output.
func (s Style) resultLine(r content.ToolResult, took time.Duration) string {
	out := s.status(r.Status)
	if r.Name != "" {
		out = s.paint(cyan, s.Line(r.Name)) + " " + out
	}
	if took > 0 {
		out += " " + s.Dim("in "+rounded(took).String())
	}
	return out + s.colon(r.Text())
}

// status shows the public status, and the exact one if it differs.
func (s Style) status(st content.Status) string {
	text := st.Public()
	if text != string(st) {
		text += " (" + s.Line(string(st)) + ")"
	}
	if st == content.StatusOK {
		return s.Good(text)
	}
	return s.Bad(text)
}

// rounded rounds a duration to a few digits.
func rounded(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// texts shows the start of each item after a colon.
func (s Style) texts(items []content.Item) string {
	if len(items) == 0 {
		return ""
	}
	out := make([]string, len(items))
	for i, it := range items {
		out[i] = s.list("", it.Kind) + s.colon(gist(it))
	}
	return ": " + strings.Join(out, "; ")
}

// gist returns the text of an item on one line.
func gist(it content.Item) string {
	var texts []string
	for _, p := range it.Parts {
		switch p.Kind {
		case content.TextKind:
			texts = append(texts, p.Text)
		case content.ToolCallKind:
			if p.Call != nil {
				texts = append(texts, "→ "+p.Call.Name)
			}
		case content.ToolResultKind:
			if p.Result != nil {
				texts = append(texts, p.Result.Text())
			}
		case content.StructuredKind, content.CustomKind:
			texts = append(texts, compact(p.Data))
		case content.ReasoningKind:
		case content.MediaKind, content.FileKind:
			texts = append(texts, "["+mediaName(p)+"]")
		}
	}
	return strings.Join(texts, " ")
}

// mediaName describes the media of a part.
func mediaName(p content.Part) string {
	name := string(p.Kind)
	if p.Name != "" {
		name += " " + p.Name
	}
	if p.Media != nil {
		if p.Media.MIME != "" {
			name += " " + p.Media.MIME
		}
		if n := p.Size(); n > 0 {
			name += ", " + count(int(n), "byte")
		}
		if p.Media.URI != "" {
			name += " at " + p.Media.URI
		}
	}
	return name
}

// list shows pairs of a label, which may be empty, and a value. It leaves out zero values.
func (s Style) list(pairs ...any) string {
	var out []string
	for i := 0; i < len(pairs); i += 2 {
		v := reflect.ValueOf(pairs[i+1])
		if v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 {
			continue
		}
		text := s.Line(value(v))
		if label := fmt.Sprint(pairs[i]); label != "" {
			text = label + " " + text
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func value(v reflect.Value) string {
	if v.Kind() != reflect.Slice {
		return fmt.Sprint(v.Interface())
	}
	if items, ok := reflect.TypeAssert[[]content.Item](v); ok {
		return count(len(items), "item")
	}
	texts := make([]string, v.Len())
	for i := range texts {
		texts[i] = fmt.Sprint(v.Index(i).Interface())
	}
	return strings.Join(texts, " ")
}

// colon shows a text after a colon, or nothing if the text is empty.
func (s Style) colon(text string) string {
	if line := s.Line(text); line != "" {
		return ": " + line
	}
	return ""
}

// notes shows the notes of hooks that continued.
func (s Style) notes(all []events.HookNote) string {
	var b strings.Builder
	for _, n := range all {
		b.WriteString("; " + s.Line(n.Hook) + s.colon(n.Text))
	}
	return b.String()
}

func is(yes bool, word string) string {
	if yes {
		return word
	}
	return ""
}

// count shows a number of things, or nothing for zero.
func count(n int, thing string) string {
	if n == 0 {
		return ""
	}
	return Plural(n, thing, thing+"s")
}

// Plural returns a number of things: "1 entry", "2 entries".
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

func names(refs []events.ToolRef) []string {
	out := make([]string, len(refs))
	for i, r := range refs {
		out[i] = r.Name
	}
	return out
}

func share(f float64) string {
	if f <= 0 {
		return ""
	}
	return strconv.Itoa(int(f*100)) + "%"
}

// usage shows the input and output tokens of a call.
func usage(u content.Usage) string {
	out := fmt.Sprintf("%d tokens in and %d out", u.InputTokens, u.OutputTokens)
	if cost := u.Cost(); cost != "" {
		out += ", " + cost
	}
	return out
}
