package looptest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
)

// Epoch is the start of every script. Times are shown relative to it.
const Epoch = content.Time(1_700_000_000_000_000_000)

// Render shows the nonzero fields of a value on one line. Two values with the same rendering are
// equal, except that nil and empty slices look the same, as on the wire.
func Render(v any) string {
	var p printer
	p.value(reflect.ValueOf(v))
	return p.String()
}

// RenderEvent shows the kind and the fields of an event.
func RenderEvent(e events.Event) string {
	var p printer
	p.WriteString(string(events.KindOf(e)))
	p.fields(reflect.ValueOf(e))
	return p.String()
}

// renderEffect shows the identity of an effect, with a readable time for timers.
func renderEffect(e loop.Effect) string {
	if t, ok := e.(loop.ArmTimer); ok {
		return fmt.Sprintf("timer/%s/%s%s", t.Kind, t.ID, since(t.At))
	}
	return e.Identity()
}

func since(t content.Time) string { return "@" + t.Sub(Epoch).String() }

type printer struct{ strings.Builder }

func (p *printer) printf(format string, args ...any) { _, _ = fmt.Fprintf(p, format, args...) }

func (p *printer) value(v reflect.Value) {
	if v.Kind() == reflect.Pointer {
		p.WriteByte('&')
		if !v.IsNil() {
			p.value(v.Elem())
		}
		return
	}
	switch x := v.Interface().(type) {
	case content.Time:
		p.WriteString(since(x))
	case content.Duration:
		p.WriteString(x.String())
	case content.Item:
		p.item(x)
	case content.Part:
		p.part(x)
	case content.ToolCall:
		p.call(x)
	case content.ToolResult:
		p.result(x)
	case content.Usage:
		p.usage(x)
	case content.Field:
		p.WriteString(x.Key + "=" + string(x.Value))
	case json.RawMessage:
		p.Write(x)
	case []byte:
		p.Write(x)
	default:
		p.plain(v)
	}
}

func (p *printer) plain(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		p.word(v.String())
	case reflect.Slice:
		p.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				p.WriteString("; ")
			}
			p.value(v.Index(i))
		}
		p.WriteByte(']')
	case reflect.Struct:
		var inner printer
		inner.fields(v)
		p.WriteString("{" + strings.TrimPrefix(inner.String(), " ") + "}")
	default:
		p.printf("%v", v.Interface())
	}
}

var bare = regexp.MustCompile(`^[\w./:@-]+$`)

func (p *printer) word(s string) {
	if bare.MatchString(s) {
		p.WriteString(s)
		return
	}
	p.printf("%q", s)
}

// fields shows turn, round and attempt without their names.
func (p *printer) fields(v reflect.Value) {
	for i := range v.NumField() {
		f, field := v.Field(i), v.Type().Field(i)
		if f.IsZero() || f.Kind() == reflect.Slice && f.Len() == 0 {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			name = field.Name
		}
		p.WriteByte(' ')
		switch {
		case field.Anonymous:
			p.value(f)
		case f.Kind() == reflect.Bool:
			p.WriteString(name)
		case name == "turn" && f.Kind() == reflect.String:
			p.WriteString(f.String())
		case name == "round", name == "attempt":
			p.printf("%c%d", name[0], f.Int())
		default:
			p.WriteString(name + "=")
			p.value(f)
		}
	}
}

func (p *printer) item(it content.Item) {
	p.WriteString(string(it.Kind))
	if it.ID != "" {
		p.WriteString("#" + string(it.ID))
	}
	for _, part := range it.Parts {
		p.WriteByte(' ')
		p.part(part)
	}
	if it.CreatedAt != 0 {
		p.WriteString(" " + since(it.CreatedAt))
	}
	if it.FinishReason != "" {
		p.WriteString(" finish=" + string(it.FinishReason))
	}
	if it.Usage != nil {
		p.WriteString(" usage=")
		p.usage(*it.Usage)
	}
	p.metadata(it.Metadata)
}

func (p *printer) metadata(m content.Metadata) {
	if len(m) > 0 {
		p.WriteString(" md=")
		p.plain(reflect.ValueOf(m))
	}
}

func (p *printer) part(part content.Part) {
	switch {
	case part.Kind == content.TextKind && part.Metadata == nil:
		p.printf("%q", part.Text)
	case part.Call != nil:
		p.WriteString("call(")
		p.call(*part.Call)
		p.WriteByte(')')
	case part.Result != nil:
		p.WriteString("result(")
		p.result(*part.Result)
		p.WriteByte(')')
	default:
		p.plain(reflect.ValueOf(part))
	}
}

func (p *printer) call(c content.ToolCall) {
	p.WriteString(strings.TrimSpace(fmt.Sprintf("%s %s %s", c.ID, c.Name, c.Input)))
	if c.Place != "" {
		p.WriteString(" " + string(c.Place))
	}
	if c.ProviderID != string(c.ID) {
		p.printf(" provider_id=%q", c.ProviderID)
	}
}

func (p *printer) result(r content.ToolResult) {
	p.printf("%s %s %s", r.CallID, r.Name, r.Status)
	if r.IsError != r.Status.IsError() {
		p.printf(" is_error=%t", r.IsError)
	}
	for _, part := range r.Output {
		p.WriteByte(' ')
		p.part(part)
	}
	if r.Code != "" {
		p.WriteString(" code=" + r.Code)
	}
	p.metadata(r.Metadata)
}

func (p *printer) usage(u content.Usage) {
	p.printf("%d/%d", u.InputTokens, u.OutputTokens)
	if u.CostMicros != 0 {
		p.printf("/%dµ", u.CostMicros)
	}
	if rest := u.ReasoningTokens + u.CacheReadTokens + u.CacheWriteTokens; rest != 0 || u.Currency != "" {
		p.plain(reflect.ValueOf(u))
	}
}
