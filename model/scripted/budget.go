package scripted

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"text/template"
	tree "text/template/parse"
)

// What the templates of one reply may do. Scripts of tests and demos need a thousandth of it.
const (
	maxSteps   = 100_000  // repetitions and branches
	maxWork    = 16 << 20 // bytes that templates and their functions write and read
	maxNesting = 64       // of actions
)

// budget ends templates that would run for too long or write too much. A script may come from a
// client, so it must not cost its node more than a reply of a model does.
type budget struct {
	ctx   context.Context //nolint:containedctx // templates have no context
	steps int             // left
	work  int             // left, in bytes
}

func newBudget(ctx context.Context) *budget { return &budget{ctx, maxSteps, maxWork} }

var (
	errSteps   = fmt.Errorf("templates of one reply take at most %d steps", maxSteps)
	errWork    = fmt.Errorf("templates of one reply read and write at most %d MiB", maxWork>>20)
	errNesting = fmt.Errorf("templates nest at most %d actions", maxNesting)
)

// stepFunc is called at the beginning of every list of actions: of each repetition, branch and template.
const stepFunc = "turnlog_step"

// step counts a step. It writes nothing.
func (b *budget) step() (string, error) {
	if b.ctx.Err() != nil {
		return "", context.Cause(b.ctx)
	}
	if b.steps--; b.steps < 0 {
		return "", errSteps
	}
	return "", nil
}

// spend counts bytes before they are written or read.
func (b *budget) spend(n int) error {
	if n < 0 || n > b.work {
		return errWork
	}
	b.work -= n
	return nil
}

// funcs replace the functions of templates whose results may be larger than their arguments.
func (b *budget) funcs() template.FuncMap {
	bounded := func(factor int, f func(args ...any) string) func(args ...any) (string, error) {
		return func(args ...any) (string, error) {
			total := 0
			for _, a := range args {
				n, err := b.size(a)
				if err != nil {
					return "", err
				}
				total += n
			}
			if err := b.spend(factor * total); err != nil {
				return "", err
			}
			return f(args...), nil
		}
	}
	return template.FuncMap{
		stepFunc:   b.step,
		"print":    bounded(1, fmt.Sprint),
		"println":  bounded(1, fmt.Sprintln),
		"printf":   b.printf,
		"html":     bounded(6, template.HTMLEscaper),
		"js":       bounded(6, template.JSEscaper),
		"urlquery": bounded(3, template.URLQueryEscaper),
	}
}

// longestNumber is how long a value can be that is no text.
const longestNumber = 64

// size returns the length of a value as text.
func (b *budget) size(v any) (int, error) {
	switch v := v.(type) {
	case string:
		return len(v), nil
	case nil, bool, int, int64, float64:
		return longestNumber, nil
	}
	n := len(fmt.Sprint(v))
	return n, b.spend(n)
}

var errWidth = errors.New("printf: a width or precision has at most three digits")

// printf is fmt.Sprintf. Each verb may repeat its longest argument.
func (b *budget) printf(format string, args ...any) (string, error) {
	longest := 1000
	for _, a := range args {
		n, err := b.size(a)
		if err != nil {
			return "", err
		}
		longest = max(longest, n)
	}
	digits := 0
	for _, c := range format {
		if digits++; c < '0' || c > '9' {
			digits = 0
		}
		if digits > 3 || c == '*' && len(args) > 0 {
			return "", errWidth
		}
	}
	verbs := strings.Count(format, "%")
	if verbs > 0 && longest > maxWork/verbs {
		return "", errWork
	}
	out := fmt.Sprintf(format, args...)
	return out, b.spend(len(out))
}

// output is the output of a template within its budget.
type output struct {
	*budget
	buf   bytes.Buffer
	where string // for errors
}

func (s *output) Write(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	if s.buf.Len()+len(p) > maxSize {
		return 0, fmt.Errorf("%s wrote more than 1 MiB", s.where)
	}
	if err := s.spend(len(p)); err != nil {
		return 0, err
	}
	return s.buf.Write(p) //nolint:wrapcheck // never fails
}

// compile parses a template and makes each list of its actions begin with a step.
func compile(name, source string) (*template.Template, error) {
	if nested(source) > maxNesting {
		return nil, errNesting
	}
	funcs := newBudget(context.Background()).funcs() // replaced for each reply
	t, err := template.New(name).Option("missingkey=error").Funcs(funcs).Parse(source)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says where
	}
	step, err := template.New(name).Funcs(funcs).Parse("{{" + stepFunc + "}}")
	if err != nil {
		return nil, err //nolint:wrapcheck // impossible
	}
	for _, t := range t.Templates() {
		meter(t.Root, step.Root.Nodes[0])
	}
	return t, nil
}

// nested returns how deep actions may nest in a template. The parser and the interpreter call
// themselves for each level.
func nested(source string) (deepest int) {
	depth := 0
	for action := range strings.SplitSeq(source, "{{") {
		words := strings.Fields(strings.TrimPrefix(action, "-"))
		deepest = max(deepest, depth+strings.Count(action, "("))
		if len(words) == 0 {
			continue
		}
		switch word, _, _ := strings.Cut(words[0], "}}"); word {
		case "if", "range", "with", "block", "define":
			depth++
		case "end":
			depth--
		case "else":
			if len(words) > 1 && (words[1] == "if" || words[1] == "with") {
				depth++ // a chain nests, and one end closes all of it
			}
		}
	}
	return max(deepest, depth)
}

// meter puts a step before a list of actions and before those in it.
func meter(l *tree.ListNode, step tree.Node) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		var b *tree.BranchNode
		switch n := n.(type) {
		case *tree.IfNode:
			b = &n.BranchNode
		case *tree.RangeNode:
			b = &n.BranchNode
		case *tree.WithNode:
			b = &n.BranchNode
		default:
			continue
		}
		meter(b.List, step)
		meter(b.ElseList, step)
	}
	l.Nodes = append([]tree.Node{step.Copy()}, l.Nodes...)
}
