package commands

import (
	"slices"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Bounds of asks.
const (
	maxInputItems = 1000 // of one submission
	maxRules      = 100  // of one submission's options, and of one AllowTools
	maxListed     = 1000 // patterns of tools, rules, routes, hooks or mutators of a session
	maxAttempts   = 1000
	minBackoff    = 10 * time.Millisecond
	maxPatience   = 7 * 24 * time.Hour
)

// Validate refuses an ask that no session can accept, with a *Rejection.
func Validate(c Command) error {
	switch c := any(c).(type) {
	case OpenSession:
		closed := c.Transcript
		if c.Resume {
			_, reply, results := content.OpenRound(c.Transcript)
			if len(reply) == 0 || c.From == "" {
				return Refuse(ReasonBadTranscript, "no round can be continued: the transcript must end in one, and From must name its session")
			}
			if n := content.CountCalls(reply); n > content.MaxCalls {
				return Refuse(ReasonTooLarge, "%d calls in the open round, at most %d", n, content.MaxCalls)
			}
			closed = slices.Concat(closed, content.Unanswered(reply, results, content.StatusNotExecuted, ""))
		}
		if i, call, problem := content.Unpaired(closed); problem != "" {
			return Refuse(ReasonBadTranscript, "item %d: call %s: %s", i+1, call, problem)
		}
		if err := checkRetry(c.Config.Retry); err != nil {
			return err
		}
		if len(c.Input) > 0 {
			return ValidateInput(c.Input)
		}
	case SubmitInput:
		if err := ValidateInput(c.Items); err != nil {
			return err
		}
		return checkOptions(c.Options)
	case StartTask:
		if c.Spec.Goal == "" {
			return Refuse(ReasonEmptyInput, "the task has no goal")
		}
		return checkOptions(c.Options)
	case ResolveApproval:
		switch {
		case c.Always && len(c.Input) > 0:
			return Refuse(ReasonInvalidInput, "an approval with other arguments is for this call alone: leave out always, or the input")
		case c.Always && !c.Approve:
			return Refuse(ReasonInvalidInput, "only an approval can be permanent: leave out always")
		case !c.Approve && len(c.Input) > 0: // it would be approved with them
			return Refuse(ReasonInvalidInput, "a denied call gets no arguments: approve it, or leave out the input")
		}
	case AllowTools:
		if len(c.Tools) == 0 || len(c.Tools) > maxRules {
			return Refuse(ReasonInvalidInput, "%d tools to allow: name 1 to %d", len(c.Tools), maxRules)
		}
		for _, p := range c.Tools {
			if err := events.CheckPattern(p); err != nil {
				return Refuse(ReasonInvalidInput, "%v", err)
			}
		}
	case SwitchModel:
		if c.Model == "" {
			return Refuse(ReasonInvalidInput, "no model is named")
		}
	case SetNextTurnCache:
		if !c.Cache.Valid() {
			return Refuse(ReasonInvalidCache, "unknown mode, retention or breakpoint")
		}
	}
	return nil
}

// CheckConfig refuses a session's configuration if it has too many patterns to match each tool against.
func CheckConfig(c events.Config) error {
	for what, n := range map[string]int{
		"patterns of tools": len(c.Tools), "rules": len(c.Rules), "routes": len(c.Routes), "hooks": len(c.Hooks), "mutators": len(c.Mutators),
	} {
		if n > maxListed {
			return Refuse(ReasonTooLarge, "%d %s, at most %d", n, what, maxListed)
		}
	}
	for _, p := range c.Tools {
		if err := events.CheckPattern(p); err != nil {
			return Refuse(ReasonInvalidInput, "%v", err)
		}
	}
	for _, r := range c.Rules {
		if err := r.Check(); err != nil {
			return Refuse(ReasonInvalidInput, "%v", err)
		}
	}
	return nil
}

// ValidateInput refuses items that a host may not submit.
func ValidateInput(items []content.Item) error {
	if len(items) == 0 {
		return Refuse(ReasonEmptyInput, "there is no item in the input")
	}
	if len(items) > maxInputItems {
		return Refuse(ReasonTooLarge, "%d items in one input, at most %d", len(items), maxInputItems)
	}
	for i, it := range items {
		switch it.Kind {
		case content.System, content.Developer, content.User, content.Context:
		default:
			return Refuse(ReasonBadItem, "item %d is of kind %q; input is system, developer, user or context", i+1, it.Kind)
		}
		if len(it.Parts) == 0 {
			return Refuse(ReasonBadItem, "item %d has no part", i+1)
		}
		if slices.ContainsFunc(it.Parts, func(p content.Part) bool { return p.Call != nil || p.Result != nil }) {
			return Refuse(ReasonBadItem, "item %d holds a tool call or a result", i+1)
		}
	}
	return nil
}

// checkRetry refuses settings that would repeat failing work without a pause or without an end.
func checkRetry(r events.Retry) error {
	for _, n := range []int{r.ModelAttempts, r.ToolAttempts, r.LostAttempts} {
		if n < 0 || n > maxAttempts {
			return Refuse(ReasonInvalidInput, "%d attempts: use 1 to %d, or 0 for the default", n, maxAttempts)
		}
	}
	for _, d := range []time.Duration{r.Backoff, r.MaxBackoff} {
		if d != 0 && (d < minBackoff || d > maxPatience) {
			return Refuse(ReasonInvalidInput, "a backoff of %v: use %v to %v, or 0 for the default", d, minBackoff, maxPatience)
		}
	}
	if r.ModelPatience < 0 || r.ModelPatience > maxPatience {
		return Refuse(ReasonInvalidInput, "a patience of %v: use up to %v, or 0 for the default", r.ModelPatience, maxPatience)
	}
	return nil
}

// checkOptions refuses options without a meaning.
func checkOptions(o *events.TurnOptions) error {
	if o == nil {
		return nil
	}
	n := len(o.Routes)
	for _, list := range o.Rules {
		n += max(len(list), 1)
		for _, r := range list {
			if err := r.Check(); err != nil {
				return Refuse(ReasonInvalidInput, "%v", err)
			}
		}
	}
	if n > maxRules {
		return Refuse(ReasonTooLarge, "%d rules and routes for one turn, at most %d", n, maxRules)
	}
	for _, r := range o.Routes {
		if err := r.Check(); err != nil {
			return Refuse(ReasonInvalidInput, "%v", err)
		}
	}
	return nil
}
