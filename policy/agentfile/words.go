package agentfile

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
)

// The words that some fields may hold.
func permissions() []string {
	return []string{string(events.RuleAllow), string(events.RuleAsk), string(events.RuleDeny), string(events.RuleGuard)}
}

func effects() []string    { return []string{string(content.ReadOnly), string(content.Idempotent), none} }
func onBusy() []string     { return []string{"queue", "steer", "interrupt", "reject"} }
func agentsMD() []string   { return []string{none, "nearest", "all"} }
func scopes() []string     { return []string{"agent", scopeAll} }
func cacheModes() []string { return []string{"disabled", "best_effort", "required"} }
func retentions() []string { return []string{"short", "extended"} }

func points() []string {
	var out []string
	for _, p := range extension.HookPoints() {
		out = append(out, string(p))
	}
	return out
}

const (
	guardName = "guardrail" // the name of the guardrails' hook in the journal

	none     = "none" // no AGENTS.md, and effects that may do harm
	scopeAll = "all"  // the scope of a memory that everybody shares
)

// The patterns that some fields have to match.
const (
	namePattern     = `^[a-z0-9][a-z0-9_-]{0,63}$`
	durationPattern = `^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$`
	routePattern    = `^(foreground|background|detach:.+)$`

	referencePattern = `^(env|file):.+$`
)

// isName reports whether s can name an agent or a server.
func isName(s string) bool { return regexp.MustCompile(namePattern).MatchString(s) }

// asName is what somebody may have meant who gave a name that cannot be one.
func asName(s string) string {
	s = regexp.MustCompile(`[^a-z0-9_-]+`).ReplaceAllString(strings.ToLower(strings.TrimSpace(s)), "-")
	if s = strings.Trim(s, "-_"); !isName(s) {
		return ""
	}
	return ": did you mean " + s + "?"
}

// parseDuration reads a positive duration; "" is zero.
func parseDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	switch {
	case err == nil && d > 0:
		return d, nil
	case regexp.MustCompile(`^[0-9]+$`).MatchString(text):
		return 0, fmt.Errorf("give the unit too: write %ss if seconds are meant", text)
	case regexp.MustCompile(`^[0-9]+ *(d|days?)$`).MatchString(text):
		days, _ := strconv.ParseInt(regexp.MustCompile(`^[0-9]+`).FindString(text), 10, 32)
		return 0, fmt.Errorf("the units are ms, s, m and h: write %dh", days*24)
	case regexp.MustCompile(durationPattern).MatchString(text) && err != nil:
		return 0, errors.New("it is longer than a time can be")
	case regexp.MustCompile(`^[0-9]+ *(s(ec(ond)?s?)?|m(in(ute)?s?)?|h(ours?)?)$`).MatchString(text) && err != nil:
		return 0, fmt.Errorf("write %s", regexp.MustCompile(`^([0-9]+) *([smh]).*$`).ReplaceAllString(text, "$1$2"))
	}
	return 0, errors.New("use a positive duration like 90s or 24h")
}
