package scripted

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/turnlog/turnlog/content"
)

// script is a parsed script.
type script struct {
	replies []reply
	repeat  bool // the last one
}

type reply struct {
	text      *text // nil: none
	reasoning string
	calls     []call
	usage     content.Usage
	finish    content.FinishReason // empty: depends on the calls
	delay     time.Duration
	chunk     int
	fail      *failure // nil: never
}

type call struct {
	id    string // empty: derived
	name  string
	input value
}

type failure struct {
	class      content.ErrorClass
	code       string
	message    string
	retryAfter time.Duration
	attempts   int // 0: all
}

func (d document) script(data []byte) (script, error) {
	root, err := d.parse(data)
	if err != nil {
		return script{}, err
	}
	if root == nil {
		return script{}, fmt.Errorf("script %s: the file is empty: write replies: with at least one reply", d.name)
	}
	var s script
	err = d.mapping(root, "a script", map[string]fieldFunc{
		"replies": func(n ast.Node) error { return d.replies(n, &s) },
		"repeat":  func(n ast.Node) error { return d.repeat(n, &s) },
	})
	if err != nil {
		return script{}, err
	}
	if len(s.replies) == 0 {
		return script{}, fmt.Errorf("script %s: no replies: write replies: with at least one reply", d.name)
	}
	return s, nil
}

func (d document) replies(n ast.Node, s *script) error {
	nodes, err := d.list(n, "replies")
	if err != nil {
		return err
	}
	for i, node := range nodes {
		r, err := d.reply(node, i+1, func(repeat ast.Node) error {
			if i != len(nodes)-1 {
				return d.errorf(repeat, "reply %d: repeat: only the last reply can be repeated", i+1)
			}
			return d.repeat(repeat, s)
		})
		if err != nil {
			return err
		}
		s.replies = append(s.replies, r)
	}
	return nil
}

// repeat is a field of the script or of its last reply.
func (d document) repeat(n ast.Node, s *script) error {
	v, err := d.boolean(n, "repeat")
	s.repeat = s.repeat || v
	return err
}

func (d document) reply(n ast.Node, number int, repeat fieldFunc) (reply, error) {
	var r reply
	who := fmt.Sprintf("reply %d", number)
	err := d.mapping(n, who, map[string]fieldFunc{
		"text": func(n ast.Node) error {
			t, err := d.template(n, who+", text")
			r.text = &t
			return err
		},
		"reasoning":     func(n ast.Node) (err error) { r.reasoning, err = d.text(n, who+", reasoning"); return err },
		"calls":         func(n ast.Node) (err error) { r.calls, err = d.calls(n, who); return err },
		"usage":         func(n ast.Node) (err error) { r.usage, err = d.usage(n, who+", usage"); return err },
		"delay":         func(n ast.Node) (err error) { r.delay, err = d.duration(n, who+", delay"); return err },
		"chunk":         func(n ast.Node) (err error) { r.chunk, err = d.small(n, who+", chunk"); return err },
		"finish_reason": func(n ast.Node) (err error) { r.finish, err = d.finish(n, who+", finish_reason"); return err },
		"error":         func(n ast.Node) (err error) { r.fail, err = d.failure(n, who+", error"); return err },
		"repeat":        repeat,
	})
	if err != nil {
		return reply{}, err
	}
	return r, d.sensible(n, who, r)
}

// sensible rejects a reply without content and content that can never be returned.
func (d document) sensible(n ast.Node, who string, r reply) error {
	says := r.text != nil || r.reasoning != "" || len(r.calls) > 0
	switch {
	case r.fail == nil && !says:
		return d.errorf(n, "%s says nothing: give it text, calls or error", who)
	case r.fail != nil && r.fail.attempts == 0 && says:
		return d.errorf(n, "%s always fails, so its content is never returned: limit the failures with error.attempts", who)
	case r.fail != nil && r.fail.attempts > 0 && !says:
		return d.errorf(n, "%s says nothing once its failing attempts are over: give it text or calls", who)
	}
	return nil
}

func (d document) calls(n ast.Node, who string) ([]call, error) {
	nodes, err := d.list(n, who+", calls")
	if err != nil {
		return nil, err
	}
	var calls []call
	for i, node := range nodes {
		c, err := d.call(node, fmt.Sprintf("%s, call %d", who, i+1))
		if err != nil {
			return nil, err
		}
		calls = append(calls, c)
	}
	return calls, nil
}

func (d document) call(n ast.Node, who string) (call, error) {
	c := call{input: value{kind: object}}
	err := d.mapping(n, who, map[string]fieldFunc{
		"name": func(n ast.Node) (err error) { c.name, err = d.text(n, who+", name"); return err },
		"id":   func(n ast.Node) (err error) { c.id, err = d.text(n, who+", id"); return err },
		"input": func(n ast.Node) (err error) {
			if _, ok := n.(*ast.MappingNode); !ok {
				return d.wrongType(n, who+", input", "a mapping")
			}
			c.input, err = d.value(n, who+", input", 0)
			return err
		},
	})
	if err == nil && c.name == "" {
		err = d.errorf(n, "%s: name is missing: say which tool is called", who)
	}
	return c, err
}

func (d document) usage(n ast.Node, who string) (content.Usage, error) {
	var u content.Usage
	err := d.mapping(n, who, map[string]fieldFunc{
		"input":  func(n ast.Node) (err error) { u.InputTokens, err = d.count(n, who+".input"); return err },
		"output": func(n ast.Node) (err error) { u.OutputTokens, err = d.count(n, who+".output"); return err },
	})
	return u, err
}

func (d document) failure(n ast.Node, who string) (*failure, error) {
	f := &failure{message: "the script says so"}
	err := d.mapping(n, who, map[string]fieldFunc{
		"class":       func(n ast.Node) (err error) { f.class, err = d.class(n, who+".class"); return err },
		"code":        func(n ast.Node) (err error) { f.code, err = d.text(n, who+".code"); return err },
		"message":     func(n ast.Node) (err error) { f.message, err = d.text(n, who+".message"); return err },
		"retry_after": func(n ast.Node) (err error) { f.retryAfter, err = d.duration(n, who+".retry_after"); return err },
		"attempts":    func(n ast.Node) (err error) { f.attempts, err = d.small(n, who+".attempts"); return err },
	})
	if err == nil && f.class == "" {
		err = d.errorf(n, "%s: class is missing: one of %s", who, join(errorClasses()))
	}
	return f, err
}

func (d document) small(n ast.Node, what string) (int, error) {
	v, err := d.count(n, what)
	if err == nil && v > math.MaxInt32 {
		err = d.errorf(n, "%s: %d is out of range", what, v)
	}
	return int(v), err
}

func (d document) class(n ast.Node, what string) (content.ErrorClass, error) {
	return oneOf(d, n, what, errorClasses())
}

func (d document) finish(n ast.Node, what string) (content.FinishReason, error) {
	return oneOf(d, n, what, []content.FinishReason{
		content.Completed, content.ToolCalls, content.MaxTokens, content.Blocked, content.Compaction, content.Other,
	})
}

func oneOf[T ~string](d document, n ast.Node, what string, known []T) (T, error) {
	s, err := d.text(n, what)
	if err == nil && !slices.Contains(known, T(s)) {
		err = d.errorf(n, "%s: %q is unknown: use one of %s", what, s, join(known))
	}
	return T(s), err
}

func errorClasses() []content.ErrorClass {
	return []content.ErrorClass{
		content.ClassRateLimit, content.ClassOverloaded, content.ClassTimeout, content.ClassNetwork, content.ClassServer,
		content.ClassAuth, content.ClassBilling, content.ClassInvalid, content.ClassTooLong, content.ClassBlocked,
		content.ClassExhausted, content.ClassLost, content.ClassOther,
	}
}

func join[T ~string](words []T) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(w))
	}
	return b.String()
}
