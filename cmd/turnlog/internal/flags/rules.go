package flags

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli/toolset"
)

// Rules say what calls may do, how a turn waits for them, and how much it may use. They
// are part of a new session. In an existing session they narrow a single turn.
type Rules struct {
	List   []events.Rule
	Routes []events.RouteRule
	Limits events.Limits
}

// Register adds the flags to cmd.
func (f *Rules) Register(cmd *cobra.Command) {
	fs := cmd.Flags()
	names, _ := f.limits()
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = name + "="
	}
	fs.Func("limit", "end a turn that exceeds one of these comma-separated `limits`; a session's own limits still apply: "+strings.Join(keys, "N, ")+"N", f.addLimits)
	complete := cobra.FixedCompletions(keys, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace)
	_ = cmd.RegisterFlagCompletionFunc("limit", complete) // the flag exists
	rule := func(action events.Action, usage string) {
		fs.Func(string(action), usage, func(pattern string) error {
			if pattern == "" {
				return errNoPattern
			}
			if err := toolset.CheckPattern(pattern); err != nil {
				return err
			}
			f.List = append(f.List, events.Rule{Tool: pattern, Action: action})
			return nil
		})
	}
	rule(events.RuleAllow, "run calls of tools that match `pattern` without approval; * matches any characters; in an existing session this lasts for the rest of the session")
	rule(events.RuleAsk, "require approval for calls of tools that match `pattern`")
	rule(events.RuleDeny, "deny calls of tools that match `pattern`")
	fs.Func("route", "how a turn waits for calls of tools that match a pattern: `pattern`=foreground, =background or =detach:DURATION", f.addRoute)
}

var errNoPattern = errors.New("use the name of a tool, where * matches any characters")

// limits returns the names of limits on the command line, and their values.
func (f *Rules) limits() (names []string, values []*int64) {
	l := &f.Limits
	return []string{"requests", "tokens", "input_tokens", "output_tokens", "tool_calls", "rounds", "cost_micros"},
		[]*int64{&l.Requests, &l.TotalTokens, &l.InputTokens, &l.OutputTokens, &l.ToolCalls, &l.MaxRounds, &l.CostMicros}
}

func (f *Rules) addLimits(text string) error {
	names, values := f.limits()
	for pair := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		i := slices.Index(names, name)
		if i < 0 {
			return fmt.Errorf("unknown limit %q: use one of %s", name, strings.Join(names, ", "))
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 1 {
			return fmt.Errorf("%s=%s: use a number of at least 1", name, value)
		}
		*values[i] = n
	}
	return nil
}

func (f *Rules) addRoute(text string) error {
	pattern, route, found := strings.Cut(text, "=")
	switch {
	case pattern == "":
		return errNoPattern
	case !found:
		return fmt.Errorf("%[1]q has no route: use %[1]s=foreground, %[1]s=background or %[1]s=detach:30s", pattern)
	}
	way, after, err := content.ParseRoute(route)
	if err != nil {
		return fmt.Errorf("%q is not a route: %w", route, err)
	}
	f.Routes = append(f.Routes, events.RouteRule{Tool: pattern, Route: way, DetachAfter: after})
	return nil
}

// Narrowed says in one line which tools the flags allow without effect because a deployment's
// policy is stricter. It returns "" if there are none.
func (f *Rules) Narrowed(p events.Policy, offered events.Catalog) string {
	var denied, asked, guarded []string
	for _, src := range offered.Sources {
		for _, t := range src.Tools {
			i := slices.IndexFunc(f.List, func(r events.Rule) bool { return content.Matches(r.Tool, t.Name) })
			if i < 0 || f.List[i].Action != events.RuleAllow {
				continue
			}
			reads, _ := p.Ruling(t.Name, src.Name, content.ReadOnly)
			writes, _ := p.Ruling(t.Name, src.Name, content.Once)
			switch {
			case writes == events.RuleDeny:
				denied = append(denied, t.Name)
			case reads == events.RuleAsk:
				asked = append(asked, t.Name)
			case writes == events.RuleAsk:
				guarded = append(guarded, t.Name)
			}
		}
	}
	var parts []string
	add := func(format string, tools []string) {
		if len(tools) > 0 {
			parts = append(parts, fmt.Sprintf(format, strings.Join(tools, ", ")))
		}
	}
	add("denies calls of %s", denied)
	add("requires approval for calls of %s", asked)
	add("requires approval for calls of %s unless they only read", guarded)
	if parts == nil {
		return ""
	}
	return "the deployment's policy is stricter than --allow: it " + strings.Join(parts, ", and ")
}

// Options returns how the flags narrow one turn of an existing session, or nil. Rules
// that the session started with are not repeated.
func (f *Rules) Options(session events.Config) *events.TurnOptions {
	var o events.TurnOptions
	if l := f.Limits; l != (events.Limits{}) {
		o.Limits = &l
	}
	narrows := func(r events.Rule) bool { return r.Action != events.RuleAllow }
	if slices.ContainsFunc(f.List, narrows) && !slices.Equal(f.List, session.Rules) {
		o.Rules = [][]events.Rule{f.List}
	}
	if !slices.Equal(f.Routes, session.Routes) {
		o.Routes = f.Routes
	}
	if o.Limits == nil && o.Rules == nil && len(o.Routes) == 0 {
		return nil
	}
	return &o
}

// Allowed returns the tools that the flags allow in an existing session. That is a
// decision about the session, not about a turn.
func (f *Rules) Allowed(session events.Config) []string {
	if slices.Equal(f.List, session.Rules) {
		return nil
	}
	var out []string
	for _, r := range f.List {
		if r.Action == events.RuleAllow {
			out = append(out, r.Tool)
		}
	}
	return out
}
