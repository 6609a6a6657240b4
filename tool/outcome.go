package tool

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
)

// Metadata keys that [Invoke] sets where they apply, in addition to
// [content.MetaTruncated], the number of bytes that were cut.
const (
	MetaAbandoned   = "abandoned"    // true: the tool ignored its deadline and may still be running
	MetaInvalidUTF8 = "invalid_utf8" // true: invalid UTF-8 was replaced
)

// Failed returns the result of a call that ended with err: the text for the model,
// the code and, if err asks for it, the authorization.
func Failed(c Call, err error) Result { return Invoker{}.failed(c, err) }

func (v Invoker) failed(c Call, err error) Result {
	e := asError(err)
	if e.Question != nil {
		return v.unanswered(c, *e.Question)
	}
	clean := v.cleaner()
	r := content.ToolResult{
		CallID: c.ID, Name: c.Name, Status: content.StatusError, IsError: true, Code: cmp.Or(e.Code, CodeFailed),
		Output: []content.Part{content.TextPart(clean.text(e.text()))},
	}
	if e.Forbidden {
		r.Status = content.StatusDenied
	}
	r.Metadata = clean.mark(nil)
	var auth json.RawMessage
	if e.Code == CodeAuth && json.Valid(e.Auth) {
		auth = e.Auth
		r.Metadata = r.Metadata.With(content.MetaAuthRequest, auth)
	}
	return Result{Result: r, Auth: auth, Usage: e.Usage, Counts: e.Counts}
}

// unanswered returns the result of a call that needs an approval, for hosts that cannot
// ask.
func (v Invoker) unanswered(c Call, g Verdict) Result {
	clean := v.cleaner()
	var open []Verdict
	for _, q := range g.Questions() {
		q.Ruling = Ask
		q.RequestKind = cmp.Or(clean.short(q.RequestKind), c.Name)
		q.Reason = cmp.Or(q.Reason, content.PolicyRequiresConfirmation)
		q.Summary = cmp.Or(clean.short(q.Summary), c.Name)
		if !slices.Contains(c.Approved, q.Key()) {
			open = append(open, q)
		}
		g.RequestKind = q.RequestKind
	}
	if len(open) == 0 {
		return v.failed(c, Failure(CodeFailed, "it asked again for %q, which was approved", g.RequestKind))
	}
	g = open[0]
	g.Also = append(g.Also, open[1:]...)
	if v.OnQuestion != nil {
		v.OnQuestion(c, g)
	}
	r := content.NewResult(c.ID, c.Name, content.StatusDenied, content.DenialText(CodeNeedsApproval+": "+clean.text(g.Summary)))
	r.Code = CodeNeedsApproval
	return Result{Result: r}
}

func asError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: CodeFailed, Message: err.Error()}
}

// text returns the text that the model sees.
func (e *Error) text() string {
	if e.Forbidden {
		return content.DenialText(e.Code + ": " + e.Message)
	}
	switch e.Code {
	case CodeRetry:
		return e.Message
	case CodeInvalidArguments:
		return prefixed(invalidPrefix, e.Message)
	case CodeAuth:
		return prefixed("Authorization required: ", e.Message)
	case CodeNotFound:
		if strings.HasPrefix(e.Message, notFoundPrefix) {
			return e.Message
		}
	}
	return "Tool failed: " + e.Message
}

// prefixed adds a prefix unless the message has it: both this package and tools make
// such errors.
func prefixed(prefix, message string) string {
	if strings.HasPrefix(message, prefix) {
		return message
	}
	return prefix + message
}

func (v Invoker) succeeded(spec Spec, c Call, out Output) Result {
	clean := v.cleaner()
	clean.stashed = out.Stashed
	r := content.ToolResult{CallID: c.ID, Name: c.Name, Status: content.StatusOK}
	for i, p := range out.Parts {
		if clean.room == 0 || i == maxParts {
			r.Output = append(r.Output, clean.dropped(out.Parts[i:]))
			break
		}
		p, err := clean.part(p)
		if err != nil {
			return v.failed(c, fmt.Errorf("part %d of its output: %w", i+1, err))
		}
		r.Output = append(r.Output, p)
	}
	r.Metadata = clean.mark(clean.metadata(out.Metadata))
	result := Result{Result: r, Usage: out.Usage, Counts: out.Counts}
	if spec.Writes {
		result.ChangedPaths = cleanPaths(out.ChangedPaths)
	}
	return result
}

func (v Invoker) cleaner() *cleaner {
	if v.MaxOutput > 0 {
		return &cleaner{room: v.MaxOutput}
	}
	return &cleaner{room: defaultMaxOutput}
}

// cleaner makes output fit for a journal: valid and not too long.
type cleaner struct {
	room     int   // bytes left
	cut      int64 // bytes that were cut
	replaced bool  // invalid UTF-8 was replaced

	stashed []string // blobs that parts may refer to
}

// maxParts limits the parts of a result, because even empty ones cost something.
const maxParts = 1000

// dropped returns a note in place of parts that do not fit.
func (c *cleaner) dropped(parts []content.Part) content.Part {
	for _, p := range parts {
		c.cut += int64(len(p.Text) + len(p.Data))
		if p.Media != nil {
			c.cut += int64(len(p.Media.Bytes))
		}
	}
	return content.TextPart(fmt.Sprintf("\n[… %d more parts were left out …]", len(parts)))
}

// part returns p in a form that may be recorded. It returns an error for a part that a result cannot
// hold.
func (c *cleaner) part(p content.Part) (content.Part, error) {
	p.Name = c.short(p.Name)
	p.Metadata = c.metadata(p.Metadata)
	switch p.Kind {
	case content.TextKind:
		return content.Part{Kind: p.Kind, Text: c.text(p.Text), Metadata: p.Metadata}, nil
	case content.StructuredKind, content.CustomKind:
		return c.data(p)
	case content.MediaKind, content.FileKind:
		return c.media(p)
	case content.ReasoningKind, content.ToolCallKind, content.ToolResultKind:
	}
	return p, fmt.Errorf("a result cannot hold a part of kind %q", p.Kind)
}

// text cuts the middle of s if s does not fit.
func (c *cleaner) text(s string) string {
	s = c.short(s)
	if len(s) <= c.room {
		c.room -= len(s)
		return s
	}
	clip := NewClip(c.room)
	_, _ = clip.WriteString(s)
	c.room = 0
	text, cut := clip.Text()
	c.cut += cut
	return text
}

// data keeps JSON whole or, if it does not fit, shows part of it as text.
func (c *cleaner) data(p content.Part) (content.Part, error) {
	if len(p.Data) == 0 {
		p.Data = json.RawMessage("null")
	}
	if !json.Valid(p.Data) {
		return p, errors.New("not valid JSON")
	}
	data := valid(p.Data) // in JSON, invalid UTF-8 can only be inside strings
	c.replaced = c.replaced || len(data) != len(p.Data) || string(data) != string(p.Data)
	if len(data) > c.room {
		return content.Part{Kind: content.TextKind, Text: c.text(string(data)), Metadata: p.Metadata}, nil
	}
	c.room -= len(data)
	return content.Part{Kind: p.Kind, Name: p.Name, Data: data, Metadata: p.Metadata}, nil
}

// media keeps bytes whole or leaves them out. It leaves out references to blobs of other calls: a tool
// must not make the host show those to a model.
func (c *cleaner) media(p content.Part) (content.Part, error) {
	if p.Media == nil {
		return p, errors.New("it has no content")
	}
	m := *p.Media
	m.Modality, m.MIME, m.URI = c.short(m.Modality), c.short(m.MIME), c.short(m.URI)
	if id, ref := content.BlobID(m.URI); ref && !slices.Contains(c.stashed, id) {
		note := fmt.Sprintf("[%s was left out: it refers to a blob of another call]", cmp.Or(p.Name, m.MIME, "media"))
		return content.Part{Kind: content.TextKind, Text: note, Metadata: p.Metadata}, nil
	}
	if n := len(m.Bytes); n > c.room {
		c.cut += int64(n)
		note := fmt.Sprintf("[… %d bytes of %s were left out …]", n, cmp.Or(m.MIME, "media"))
		return content.Part{Kind: content.TextKind, Text: note, Metadata: p.Metadata}, nil
	}
	c.room -= len(m.Bytes)
	return content.Part{Kind: p.Kind, Name: p.Name, Text: c.short(p.Text), Media: &m, Metadata: p.Metadata}, nil
}

// short makes s valid. It is for texts that are too short to cut.
func (c *cleaner) short(s string) string {
	fixed := strings.ToValidUTF8(s, "\uFFFD")
	c.replaced = c.replaced || fixed != s
	return fixed
}

// metadata drops the keys reserved for Turnlog and whatever does not fit, and makes
// the rest sorted and valid.
func (c *cleaner) metadata(m content.Metadata) content.Metadata {
	var out content.Metadata
	for _, f := range m.WithoutReserved() {
		if len(f.Value) > c.room {
			c.cut += int64(len(f.Value))
			continue
		}
		c.room -= len(f.Value)
		out = out.With(c.short(f.Key), json.RawMessage(valid(f.Value)))
	}
	return out
}

// mark records in the metadata how the output was changed.
func (c *cleaner) mark(m content.Metadata) content.Metadata {
	if c.cut > 0 {
		m = m.With(content.MetaTruncated, c.cut)
	}
	if c.replaced {
		m = m.With(MetaInvalidUTF8, true)
	}
	return m
}

// cleanPaths returns the paths below the tool's root, sorted and without duplicates.
func cleanPaths(paths []string) []string {
	var out []string
	for _, p := range paths {
		p = path.Clean(filepath.ToSlash(strings.ToValidUTF8(p, "\uFFFD")))
		if p != "." && filepath.IsLocal(p) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
