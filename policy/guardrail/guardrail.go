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
)

// Config configures a [Guard].
type Config struct {
	Name string // in the journal; "": guardrail

	Input   []Check // of new input of the user
	Output  []Check // of replies
	Results []Check // of tool results
}

// Guard is a hook that runs checks. It is safe for concurrent use if its checks are.
type Guard struct {
	name   string
	points []extension.Point
	checks map[extension.Point][]Check
}

var _ extension.Hook = (*Guard)(nil)

// New returns a guard. It returns an error for a Config without checks, and for checks
// without a name or a function.
func New(cfg Config) (*Guard, error) {
	g := &Guard{name: cmp.Or(cfg.Name, "guardrail"), checks: map[extension.Point][]Check{
		extension.PreLlmCall: slices.Clone(cfg.Input), extension.PostLlmCall: slices.Clone(cfg.Output), extension.PostToolExecution: slices.Clone(cfg.Results),
	}}
	for _, p := range extension.HookPoints() {
		for i, c := range g.checks[p] {
			if c.Name == "" || c.Judge == nil {
				return nil, fmt.Errorf("new guard %s: check %d at %s has no name or no function", g.name, i+1, p)
			}
		}
		if len(g.checks[p]) > 0 {
			g.points = append(g.points, p)
		}
	}
	if len(g.points) == 0 {
		return nil, fmt.Errorf("new guard %s: no checks", g.name)
	}
	return g, nil
}

// Name returns the guard's name in the journal.
func (g *Guard) Name() string { return g.name }

// Points returns the points at which the guard has checks.
func (g *Guard) Points() []extension.Point { return slices.Clone(g.points) }

// OnEvent runs the checks of the event's point. The first failure terminates the turn.
func (g *Guard) OnEvent(ctx context.Context, e extension.HookEvent) (extension.Action, error) {
	text := textOf(e)
	if text == "" {
		return extension.Action{}, nil
	}
	var warnings []string
	var errs []error
	for _, c := range g.checks[e.Point] {
		problem, err := c.judge(ctx, text, e)
		switch reason := c.Name + ": " + problem; {
		case err != nil:
			errs = append(errs, fmt.Errorf("check %s: %w", c.Name, err))
		case problem == "":
		case c.Warn:
			warnings = append(warnings, reason)
		default:
			return extension.Action{Kind: extension.Terminate, Reason: reason}, nil
		}
	}
	return extension.Action{Reason: strings.Join(warnings, "; ")}, errors.Join(errs...)
}

// textOf returns the text that an event's checks read.
func textOf(e extension.HookEvent) string {
	switch {
	case e.Point == extension.PreLlmCall && e.Request != nil:
		return joined(newInput(e.Request.Transcript))
	case e.Point == extension.PostLlmCall && e.Reply != nil:
		return joined(e.Reply.Items)
	case e.Point == extension.PostToolExecution && e.Result != nil:
		return e.Result.Text()
	}
	return ""
}

// newInput returns the user's input since the model's last reply or a tool's last result.
// Earlier input that a guard stopped was checked then: items that enter a transcript
// together have the same time.
func newInput(items []content.Item) []content.Item {
	var input []content.Item
	for _, it := range slices.Backward(items) {
		if it.Kind == content.Assistant || it.Kind == content.Tool {
			break
		}
		if it.Kind == content.User && (len(input) == 0 || it.CreatedAt == input[0].CreatedAt) {
			input = append(input, it)
		}
	}
	slices.Reverse(input)
	return input
}

// joined returns the text of the items, one per line.
func joined(items []content.Item) string {
	var texts []string
	for _, it := range items {
		if text := it.Text(); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}
