package guardrail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
)

// Subject is what a check reads.
type Subject struct {
	Point   extension.Point // PreLlmCall: input, PostLlmCall: a reply, PostToolExecution: a result
	Session content.SessionID
	Turn    content.TurnID
	Round   int                 // from 0
	Text    string              // never empty
	Call    *content.ToolCall   // of a result
	Result  *content.ToolResult // of a result, with its other parts
}

// Config configures a [Guard].
type Config struct {
	Name string // in the journal; "": guardrail

	Input   []Check // of new input of the user
	Output  []Check // of replies
	Results []Check // of tool results

	// OnWarn gets each warning before the guard decides. It must return at once. It may be
	// nil.
	OnWarn func(s Subject, check, reason string)
}

// Guard is a hook that runs checks. It is safe for concurrent use if its checks are.
type Guard struct {
	cfg Config
}

var _ extension.Hook = (*Guard)(nil)

// New returns a guard. It returns an error for a Config without checks, and for invalid
// checks.
func New(cfg Config) (*Guard, error) {
	cfg.Name = cmp.Or(cfg.Name, "guardrail")
	cfg.Input, cfg.Output, cfg.Results = slices.Clone(cfg.Input), slices.Clone(cfg.Output), slices.Clone(cfg.Results)
	all := slices.Concat(cfg.Input, cfg.Output, cfg.Results)
	if len(all) == 0 {
		return nil, fmt.Errorf("new guard %s: no checks", cfg.Name)
	}
	for i, c := range all {
		switch {
		case c.err != nil:
			return nil, fmt.Errorf("new guard %s: check %s: %w", cfg.Name, c.Name, c.err)
		case c.Name == "":
			return nil, fmt.Errorf("new guard %s: check %d has no name", cfg.Name, i+1)
		case c.Judge == nil:
			return nil, fmt.Errorf("new guard %s: check %s has no function", cfg.Name, c.Name)
		}
	}
	return &Guard{cfg: cfg}, nil
}

// Name returns the guard's name in the journal.
func (g *Guard) Name() string { return g.cfg.Name }

// Points returns the points at which the guard has checks.
func (g *Guard) Points() []extension.Point {
	var out []extension.Point
	for _, p := range []extension.Point{extension.PreLlmCall, extension.PostLlmCall, extension.PostToolExecution} {
		if len(g.checks(p)) > 0 {
			out = append(out, p)
		}
	}
	return out
}

func (g *Guard) checks(p extension.Point) []Check {
	switch p {
	case extension.PreLlmCall:
		return g.cfg.Input
	case extension.PostLlmCall:
		return g.cfg.Output
	case extension.PostToolExecution:
		return g.cfg.Results
	case extension.LoopIteration, extension.PreToolExecution, extension.ContextCompaction, extension.SessionStart,
		extension.SessionEnd, extension.BeforeModel, extension.AfterToolResult, extension.AfterTurnEnded:
	}
	return nil
}

// OnEvent runs the checks of the event's point. The first trip terminates the turn.
func (g *Guard) OnEvent(ctx context.Context, e extension.HookEvent) (extension.Action, error) {
	s := Subject{Point: e.Point, Session: e.Session, Turn: e.Turn, Round: e.Round, Text: textOf(e)}
	if e.Point == extension.PostToolExecution {
		s.Call, s.Result = e.Call, e.Result
	}
	if s.Text == "" {
		return extension.Action{}, nil
	}
	var warned []string
	var failed []error
	for _, c := range g.checks(e.Point) {
		v, err := c.judge(ctx, s)
		switch reason := c.Name + ": " + v.Reason; {
		case err != nil:
			failed = append(failed, fmt.Errorf("check %s: %w", c.Name, err))
		case v.Ruling == Tripped:
			return extension.Action{Kind: extension.Terminate, Reason: reason}, nil
		case v.Ruling == Warned:
			warned = append(warned, reason)
			if g.cfg.OnWarn != nil {
				g.cfg.OnWarn(s, c.Name, v.Reason)
			}
		}
	}
	return extension.Action{Reason: strings.Join(warned, "; ")}, errors.Join(failed...)
}

// textOf returns the text that an event's checks read.
func textOf(e extension.HookEvent) string {
	switch {
	case e.Point == extension.PreLlmCall && e.Request != nil:
		return newInput(e.Request.Transcript)
	case e.Point == extension.PostLlmCall && e.Reply != nil:
		return replyText(e.Reply)
	case e.Point == extension.PostToolExecution && e.Result != nil:
		return e.Result.Text()
	}
	return ""
}

// newInput returns the user's input since the model's last reply or a tool's last result.
// Earlier input that a guard stopped was checked then: items that enter a transcript
// together have the same time.
func newInput(items []content.Item) string {
	var texts []string
	var at content.Time
	for _, it := range slices.Backward(items) {
		if it.Kind == content.Assistant || it.Kind == content.Tool {
			break
		}
		if it.Kind != content.User || len(texts) > 0 && it.CreatedAt != at {
			continue
		}
		at = it.CreatedAt
		texts = append(texts, it.Text())
	}
	slices.Reverse(texts)
	return joined(texts)
}

func replyText(r *model.Reply) string {
	texts := make([]string, len(r.Items))
	for i, it := range r.Items {
		texts[i] = it.Text()
	}
	return joined(texts)
}

func joined(texts []string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), "\n")
}
