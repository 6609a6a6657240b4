package scripted

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"text/template"
	tree "text/template/parse"
)

// Limits of the templates of one reply. Scripts of tests and demos need a thousandth of them.
const (
	maxWork     = 16 << 20 // bytes of prompt, results and output
	maxTemplate = 16 << 10 // bytes of a text with actions
)

var (
	errWork     = fmt.Errorf("templates of one reply read and write at most %d MiB", maxWork>>20)
	errTemplate = fmt.Errorf("a text with templates has at most %d KiB", maxTemplate>>10)
)

// budget ends templates that read or write too much. A script may come from a client, so it must
// not cost its node more than a reply of a model does.
type budget struct {
	ctx  context.Context //nolint:containedctx // templates have no context
	work int             // bytes left
}

func newBudget(ctx context.Context) *budget { return &budget{ctx, maxWork} }

// spend counts bytes before they are written or read.
func (b *budget) spend(n int) error {
	if b.ctx.Err() != nil {
		return context.Cause(b.ctx)
	}
	if n > b.work {
		return errWork
	}
	b.work -= n
	return nil
}

// output is the output of a template within its budget.
type output struct {
	*budget
	buf   bytes.Buffer
	where string // for errors
}

func (s *output) Write(p []byte) (int, error) {
	if s.buf.Len()+len(p) > maxSize {
		return 0, fmt.Errorf("%s wrote more than 1 MiB", s.where)
	}
	if err := s.spend(len(p)); err != nil {
		return 0, err
	}
	return s.buf.Write(p) //nolint:wrapcheck // never fails
}

// compile parses a template. A template is limited: it has no variables, no nested templates and no
// functions that make text, and it can repeat only once per result.
func compile(name, source string) (*template.Template, error) {
	if len(source) > maxTemplate {
		return nil, errTemplate
	}
	t, err := template.New(name).Option("missingkey=error").Parse(source)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says where
	}
	if len(t.Templates()) > 1 {
		return nil, fmt.Errorf("%s defines a template, which is not allowed", name)
	}
	return t, permit(t.Root, false)
}

// functions returns the names of the functions that templates may call.
func functions() []string {
	return []string{"and", "eq", "ge", "gt", "index", "le", "len", "lt", "ne", "not", "or", "slice"}
}

// permit returns an error if a node, or a node in it, is not allowed in scripts. repeated says that the
// node is in a range.
func permit(n tree.Node, repeated bool) error {
	switch n := n.(type) {
	case *tree.ListNode:
		if n != nil { // there is no else
			return permitAll(n.Nodes, repeated)
		}
	case *tree.ActionNode:
		return permit(n.Pipe, repeated)
	case *tree.IfNode:
		return permitBranch(n.BranchNode, repeated)
	case *tree.WithNode:
		return permitBranch(n.BranchNode, repeated)
	case *tree.RangeNode:
		if repeated || n.Pipe.String() != ".Results" {
			return fmt.Errorf("%s: a range must be over .Results, and not inside another range", n.Pipe)
		}
		return permitBranch(n.BranchNode, true)
	case *tree.PipeNode:
		if len(n.Decl) > 0 {
			return fmt.Errorf("%s: variables are not allowed", n)
		}
		return permitAll(n.Cmds, repeated)
	case *tree.CommandNode:
		return permitAll(n.Args, repeated)
	case *tree.ChainNode:
		return permit(n.Node, repeated)
	case *tree.IdentifierNode:
		if !slices.Contains(functions(), n.Ident) {
			return fmt.Errorf("%s: only these functions are allowed: %v", n, functions())
		}
	case *tree.TemplateNode:
		return fmt.Errorf("%s: other templates are not allowed", n)
	}
	return nil
}

func permitAll[N tree.Node](nodes []N, repeated bool) error {
	for _, n := range nodes {
		if err := permit(n, repeated); err != nil {
			return err
		}
	}
	return nil
}

func permitBranch(b tree.BranchNode, repeated bool) error {
	return permitAll([]tree.Node{b.Pipe, b.List, b.ElseList}, repeated)
}
