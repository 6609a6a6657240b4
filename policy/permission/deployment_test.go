package permission_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/policy/permission"
)

const scoped = `
name: v3
rules:
  - {tool: shell_exec, action: allow, agent: coder}
  - {tool: shell_exec, action: allow, opener: "ops-*", queue: sandbox}
  - {tool: "fs_*", action: deny, agent: reader}
  - {tool: "http_*", action: deny, opener: "guest-*"}
  - {tool: "*", action: guard}
`

func TestAPolicyIsAboutAgentsOpenersAndQueues(t *testing.T) {
	t.Parallel()
	d, err := permission.ParseDeployment([]byte(scoped), nil)
	if err != nil {
		t.Fatal(err)
	}
	coder, reader := events.Subject{Agent: "coder"}, events.Subject{Agent: "reader"}
	ops := events.Subject{Opener: "ops-ann"}
	for name, c := range map[string]struct {
		subjects    []events.Subject
		tool, queue string
		want        events.Action
	}{
		"no one is named":                 {tool: "shell_exec", want: events.RuleAsk},
		"the agent":                       {subjects: []events.Subject{coder}, tool: "shell_exec", want: events.RuleAllow},
		"another agent":                   {subjects: []events.Subject{reader}, tool: "shell_exec", want: events.RuleAsk},
		"a claimed agent widens nothing":  {subjects: []events.Subject{{Agent: "coder", AgentClaimed: true}}, tool: "shell_exec", want: events.RuleAsk},
		"a claimed agent narrows":         {subjects: []events.Subject{{Agent: "reader", AgentClaimed: true}}, tool: "fs_read_file", want: events.RuleDeny},
		"the opener, whom others may use": {subjects: []events.Subject{ops}, tool: "shell_exec", queue: "sandbox", want: events.RuleAsk},
		"the opener, on another queue":    {subjects: []events.Subject{ops}, tool: "shell_exec", queue: "prod", want: events.RuleAsk},
		"an opener narrows":               {subjects: []events.Subject{{Opener: "guest-1"}}, tool: "http_get", want: events.RuleDeny},
		"a claimed opener":                {subjects: []events.Subject{{Opener: "ops-ann", OpenerClaimed: true}}, tool: "shell_exec", queue: "sandbox", want: events.RuleAsk},
		"two claims":                      {subjects: []events.Subject{{Agent: "coder", AgentClaimed: true, Opener: "ops-ann", OpenerClaimed: true}}, tool: "shell_exec", queue: "sandbox", want: events.RuleAsk},
		"a child of a stricter agent":     {subjects: []events.Subject{coder, reader}, tool: "shell_exec", want: events.RuleAsk},
		"a child of an equal one":         {subjects: []events.Subject{coder, coder}, tool: "shell_exec", want: events.RuleAllow},
	} {
		if got, _ := d.For(c.subjects...).Ruling(c.tool, c.queue, content.Once); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if other, err := permission.ParseDeployment([]byte(strings.Replace(scoped, "v3", "v4", 1)), nil); err != nil || other.Digest() == d.Digest() {
		t.Errorf("another policy has the same digest, %v", err)
	}
}

// A rule about an agent also binds a session that claims to have it and an opener that another rule
// allows more.
func TestAClaimOfAnOpenerWidensNoRuleAboutAnAgent(t *testing.T) {
	t.Parallel()
	d, err := permission.ParseDeployment([]byte("rules:\n- {tool: http_fetch, action: allow, opener: ops}\n- {tool: http_fetch, action: deny, agent: intern}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []events.Subject{
		{Agent: "intern", Opener: "ops"}, {Agent: "intern", AgentClaimed: true, Opener: "ops", OpenerClaimed: true}, {Agent: "intern", AgentClaimed: true, Opener: "bob"},
	} {
		if got, _ := d.For(s).Ruling("http_fetch", "q", content.ReadOnly); got != events.RuleDeny {
			t.Errorf("%+v: %s, want deny", s, got)
		}
	}
}

func TestThePolicyWithoutAFileAsksAboutAllButReads(t *testing.T) {
	t.Parallel()
	for _, d := range []permission.Deployment{permission.Default(), {}} {
		p := d.For()
		for effects, want := range map[content.Effects]events.Action{
			content.ReadOnly: events.RuleAllow, content.Idempotent: events.RuleAsk, content.Once: events.RuleAsk,
		} {
			if got, _ := p.Ruling("t", "q", effects); got != want {
				t.Errorf("%q: a call of a tool with the effects %q: %s, want %s", d.Name, effects, got, want)
			}
		}
	}
	if got, _ := permission.AllowAll().For().Ruling("t", "q", content.Once); got != events.RuleAllow {
		t.Errorf("allow all: %s", got)
	}
}

func TestABadPolicyIsRefused(t *testing.T) {
	t.Parallel()
	known := func(p string) error {
		if p == "shel_exec" {
			return errors.New(`"shel_exec": there is no such tool: did you mean shell_exec?`)
		}
		return nil
	}
	for text, want := range map[string]string{
		"rules: [{tool: shel_exec, action: ask}]":                     "rule 1: \"shel_exec\": there is no such tool",
		"rules: [{tool: a, action: ask}, {tool: b, action: perhaps}]": `rule 2: rule for b: action "perhaps"`,
		"rules: [{action: ask}]":                                      `rule 1: tool ""`,
		"rules: [{tool: a, action: ask, agnt: x}]":                    "agnt",
		"rulez: []": "rulez",
		"rules: 7":  "not a policy",
		"rules: [" + strings.Repeat("{tool: a, action: ask},", 201) + "]": "201 rules, at most 200",
		"name: " + strings.Repeat("x", 70_000):                            "at most 65536",
	} {
		if _, err := permission.ParseDeployment([]byte(text), known); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
}
