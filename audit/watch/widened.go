package watch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// maxNames bounds the names by which policies are compared.
const maxNames = 1 << 14

// widened says what a policy allows that the previous one did not, and reports whether there is anything. It compares
// both policies for tools and queues whose names match one pattern, or any two patterns, of either policy.
func widened(before, now events.Policy) (what string, wider bool) {
	var tools, queues []string
	for _, r := range slices.Concat(slices.Concat(before.Rules...), slices.Concat(now.Rules...)) {
		tools = append(tools, r.Tool)
		if r.Queue != "" {
			queues = append(queues, r.Queue)
		}
	}
	toolNames, queueNames := names("any-tool", tools), names("any-queue", queues)
	if len(toolNames)*len(queueNames) > maxNames {
		return "it has too many rules to be compared with the one before", true
	}
	for _, tool := range toolNames {
		for _, queue := range queueNames {
			for _, effects := range []content.Effects{content.Once, content.ReadOnly} {
				was, _ := before.Ruling(tool, queue, effects)
				is, rule := now.Ruling(tool, queue, effects)
				if strictness(is) < strictness(was) {
					return fmt.Sprintf("calls of tools such as %q on queues such as %q (effects: %s): %s before, now %s by the rule %s",
						tool, queue, effectsName(effects), was, is, rule.Tool), true
				}
			}
		}
	}
	return "", false
}

// names returns names that match one or two of the patterns, after a name that matches only *.
func names(first string, patterns []string) []string {
	slices.Sort(patterns)
	patterns = slices.Compact(patterns)
	out := []string{first}
	add := func(name string) {
		if name != "" && len(out) <= maxNames && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, p := range patterns {
		add(strings.ReplaceAll(p, "*", "any"))
		add(strings.ReplaceAll(p, "*", ""))
		if strings.Contains(p, "*") {
			for _, q := range patterns {
				add(strings.ReplaceAll(p, "*", strings.ReplaceAll(q, "*", "")))
			}
		}
	}
	return out
}

func strictness(a events.Action) int {
	return slices.Index([]events.Action{events.RuleAllow, events.RuleAsk, events.RuleDeny}, a)
}

func effectsName(e content.Effects) string {
	if e == content.Once {
		return "any"
	}
	return string(e)
}
