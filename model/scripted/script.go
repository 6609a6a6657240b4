package scripted

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

type script struct {
	Replies []reply `yaml:"replies"`
	Repeat  bool    `yaml:"repeat"` // the last reply
}

type reply struct {
	Text      *text                `yaml:"text"` // nil: none
	Reasoning str                  `yaml:"reasoning"`
	Calls     []call               `yaml:"calls"`
	Usage     usage                `yaml:"usage"`
	Finish    content.FinishReason `yaml:"finish_reason"` // empty: depends on the calls
	Delay     duration             `yaml:"delay"`
	Chunk     count                `yaml:"chunk"`
	Failure   *failure             `yaml:"error"` // nil: never fails
	Repeat    bool                 `yaml:"repeat"`
}

type call struct {
	ID    str   `yaml:"id"` // empty: derived
	Name  str   `yaml:"name"`
	Input input `yaml:"input"`
}

type usage struct {
	Input  count `yaml:"input"`
	Output count `yaml:"output"`
}

type failure struct {
	Class      content.ErrorClass `yaml:"class"`
	Code       str                `yaml:"code"`
	Message    str                `yaml:"message"`
	RetryAfter duration           `yaml:"retry_after"`
	Attempts   count              `yaml:"attempts"` // 0: all
}

// check rejects replies that can never be returned, and completes the script.
func (s *script) check(root ast.Node) error {
	if len(s.Replies) == 0 {
		return errors.New("no replies: write replies: with at least one reply")
	}
	for i := range s.Replies {
		r := &s.Replies[i]
		problem := r.problem()
		if r.Repeat && i < len(s.Replies)-1 {
			problem = "only the last reply can be repeated"
		}
		if problem != "" {
			at := root
			if path, err := yaml.PathString(fmt.Sprintf("$.replies[%d]", i)); err == nil {
				at, _ = path.FilterNode(root) // the node of the reply
			}
			return wrong(at.GetToken(), "replies[%d]: %s", i, problem)
		}
		s.Repeat = s.Repeat || r.Repeat
	}
	return nil
}

// problem returns why a reply can never be returned, or "".
func (r *reply) problem() string {
	says := r.Text != nil || r.Reasoning != "" || len(r.Calls) > 0
	f := r.Failure
	switch {
	case slices.ContainsFunc(r.Calls, func(c call) bool { return c.Name == "" }):
		return "a call has no name: say which tool is called"
	case r.Finish != "" && !slices.Contains(model.FinishReasons(), r.Finish):
		return fmt.Sprintf("finish_reason %q is unknown: use one of %s", r.Finish, oneOf(model.FinishReasons()))
	case f == nil && !says:
		return "it says nothing: give it text, calls or error"
	case f == nil:
		return ""
	case !slices.Contains(model.ErrorClasses(), f.Class):
		return fmt.Sprintf("error.class %q is unknown: use one of %s", f.Class, oneOf(model.ErrorClasses()))
	case f.Attempts == 0 && says:
		return "it always fails, so its content is never returned: limit the failures with error.attempts"
	case f.Attempts > 0 && !says:
		return "it says nothing after its failing attempts: give it text or calls"
	}
	return ""
}

func oneOf[T ~string](words []T) string { return strings.Trim(fmt.Sprintf("%q", words), "[]") }
