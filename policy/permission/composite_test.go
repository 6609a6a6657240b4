package permission_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// says is a policy with a fixed verdict.
type says tool.Verdict

func (s says) Evaluate(context.Context, tool.Request) (tool.Verdict, error) {
	return tool.Verdict(s), nil
}

// fails is a policy that returns an error.
type fails struct{}

func (fails) Evaluate(context.Context, tool.Request) (tool.Verdict, error) {
	return tool.Verdict{}, errors.New("no connection")
}

func TestPoliciesCombineByOneLaw(t *testing.T) {
	t.Parallel()
	yes, nothing := says{Ruling: tool.Allow}, says{}
	no, later := says{Ruling: tool.Deny, Code: "first"}, says{Ruling: tool.Deny, Code: "second"}
	one, two := says{Ruling: tool.Ask, RequestKind: "one"}, says{Ruling: tool.Ask, RequestKind: "two"}
	three := says{Ruling: tool.Ask, RequestKind: "three", Also: []tool.Verdict{{RequestKind: "four"}}}
	for name, tc := range map[string]struct {
		of   []tool.Permissions
		want string
	}{
		"no policy":                     {nil, "none"},
		"no opinion":                    {[]tool.Permissions{nothing, nothing}, "none"},
		"allow beats no opinion":        {[]tool.Permissions{nothing, yes, nothing}, "allow"},
		"ask beats allow before it":     {[]tool.Permissions{yes, one}, "ask one"},
		"ask beats allow after it":      {[]tool.Permissions{one, yes}, "ask one"},
		"every question is its own":     {[]tool.Permissions{one, yes, two}, "ask one two"},
		"also those of one policy":      {[]tool.Permissions{three, one}, "ask three four one"},
		"deny beats ask before it":      {[]tool.Permissions{one, no}, "deny first"},
		"deny beats ask and allow":      {[]tool.Permissions{no, one, yes}, "deny first"},
		"the first deny wins":           {[]tool.Permissions{yes, no, later}, "deny first"},
		"composites are policies":       {[]tool.Permissions{permission.All(one, two), yes}, "ask one two"},
		"an unknown ruling":             {[]tool.Permissions{one, says{Ruling: 9}, yes}, "deny permission_denied"},
		"a question within a composite": {[]tool.Permissions{permission.All(permission.All(three))}, "ask three four"},
	} {
		if got := ruling(evaluate(t, permission.All(tc.of...), requestOf(t, "x", "k", nil))); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	if v, err := permission.All(one, fails{}, yes).Evaluate(t.Context(), tool.Request{}); err == nil || v.Ruling == tool.Allow {
		t.Errorf("Evaluate = %+v, %v, want the error", v, err)
	}
}

func TestRulesMatchTheNameOfTheTool(t *testing.T) {
	t.Parallel()
	rules := permission.Rules{
		{Tool: "fs_delete", Action: events.RuleDeny},
		{Tool: "fs_*_file", Action: events.RuleAllow},
		{Tool: "fs_*", Action: events.RuleAsk},
		{Tool: "*_exec*", Action: events.RuleAsk},
		{Tool: "later", Action: "sandbox"},
	}
	guarded := permission.Rules{{Tool: "*", Action: events.RuleGuard}}
	reads := tool.Spec{Effects: content.ReadOnly}
	for name, tc := range map[string]struct {
		rules permission.Rules
		tool  string
		spec  tool.Spec
		want  string
	}{
		"no rules, no opinion":        {nil, "fs_delete", tool.Spec{}, "none"},
		"named":                       {rules, "fs_delete", tool.Spec{}, "deny rule_denied"},
		"first match":                 {rules, "fs_write_file", tool.Spec{}, "allow"},
		"a later one":                 {rules, "fs_list", reads, "ask tool.call"},
		"star at both ends":           {rules, "shell_exec", tool.Spec{}, "ask tool.call"},
		"none matches, it only reads": {rules, "count", reads, "allow"},
		"none matches, it may act":    {rules, "mail", tool.Spec{Effects: content.Idempotent}, "ask tool.call"},
		"unknown action":              {rules, "later", reads, "deny rule_denied"},
		"the name is not a part":      {rules, "not_fs_delete", reads, "allow"},
		"guarded, it only reads":      {guarded, "fs_list", reads, "allow"},
		"guarded, it may act":         {guarded, "fs_delete", tool.Spec{}, "ask tool.call"},
	} {
		r := requestOf(t, tc.tool, "", nil)
		r.Spec = tc.spec
		if got := ruling(evaluate(t, tc.rules, r)); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	if err := rules.Check(); err == nil || !strings.Contains(err.Error(), "rule 5") {
		t.Errorf("Check = %v, want the fifth rule named", err)
	}
	if err := (permission.Rules{{Action: events.RuleAsk}}).Check(); err == nil {
		t.Error("Check took a rule for no tool")
	}
	if err := append(guarded, rules[:4]...).Check(); err != nil {
		t.Errorf("Check = %v", err)
	}
}

func TestStarsMatchAnything(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true},
		{"*", "anything", true},
		{"**", "x", true},
		{"", "x", false},
		{"a*", "a", true},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"a*b*c", "aXbYbZc", true},
		{"a*b*c", "acb", false},
		{"*b", "ab", true},
		{"*ab", "aab", true},
		{"ab", "AB", false},
	} {
		rules := permission.Rules{{Tool: tc.pattern, Action: events.RuleDeny}, {Tool: "*", Action: events.RuleAllow}}
		r := requestOf(t, tc.name, "", nil)
		if got := evaluate(t, rules, r).Ruling == tool.Deny; got != tc.want {
			t.Errorf("%q matches %q = %t, want %t", tc.pattern, tc.name, got, tc.want)
		}
	}
}

func TestTheLongestKindCounts(t *testing.T) {
	t.Parallel()
	p := permission.Kinds{Allow: []string{"mail", "pay.small"}, Ask: []string{"mail.send", "same"}, Deny: []string{"mail.send.all", "pay.", "same"}}
	for kind, want := range map[string]string{
		"mail": "allow", "mail.read": "allow", "mail.send": "ask mail.send", "mail.send.one": "ask mail.send.one",
		"mail.send.all": "deny kind_not_allowed", "pay": "deny kind_not_allowed", "pay.big": "deny kind_not_allowed", "pay.small": "allow",
		"mailing": "none", "": "none", "same": "deny kind_not_allowed",
	} {
		if got := ruling(evaluate(t, p, requestOf(t, "x", kind, nil))); got != want {
			t.Errorf("%q: %s, want %s", kind, got, want)
		}
	}
}

func TestServersAndScopesAreSeparateQuestions(t *testing.T) {
	t.Parallel()
	type target struct {
		Server string   `json:"server,omitempty"`
		Scopes []string `json:"scopes,omitempty"`
	}
	p := permission.Servers{Trust: []string{"files"}, Deny: []string{"evil"}, Scopes: []string{"read"}}
	strict := permission.Servers{Trust: []string{"files"}, Scopes: []string{"read"}, Outside: "deny"}
	for name, tc := range map[string]struct {
		p    permission.Servers
		kind string
		t    any
		want string
	}{
		"not about servers":     {p, "filesystem.read", target{}, "none"},
		"trusted":               {p, "mcp.tool_call", target{"files", []string{"read"}}, "allow"},
		"another server":        {p, "mcp.tool_call", target{"mail", nil}, "ask mcp.server"},
		"another scope":         {p, "mcp.connect", target{"files", []string{"write", "admin"}}, "ask mcp.auth_scope mcp.auth_scope"},
		"both":                  {p, "mcp.connect", target{"mail", []string{"write"}}, "ask mcp.server mcp.auth_scope"},
		"denied":                {p, "mcp.connect", target{"evil", nil}, "deny server_not_trusted"},
		"no server":             {p, "mcp.connect", target{}, "deny unreadable_request"},
		"no target":             {p, "mcp.connect", nil, "deny unreadable_request"},
		"strict, server":        {strict, "mcp.connect", target{"mail", nil}, "deny server_not_trusted"},
		"strict, scope":         {strict, "mcp.connect", target{"files", []string{"write"}}, "deny auth_scope_not_allowed"},
		"nothing is configured": {permission.Servers{}, "mcp.connect", target{"any", []string{"any"}}, "allow"},
	} {
		if got := ruling(evaluate(t, tc.p, requestOf(t, "x", tc.kind, tc.t))); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	v := evaluate(t, p, requestOf(t, "x", "mcp.connect", target{"mail", []string{"write"}}))
	if v.Reason != content.SensitiveServer || v.Scope != "mail" || v.Also[0].Reason != content.SensitiveAuthScope || v.Also[0].Scope != "mail write" {
		t.Errorf("verdict = %+v", v)
	}
}

func TestNarrowingOnlyRestricts(t *testing.T) {
	t.Parallel()
	narrow := permission.Narrowing{
		{Tool: "fs_delete", Action: events.RuleDeny},
		{Tool: "fs_read", Action: events.RuleAllow},
		{Tool: "fs_*", Action: events.RuleAsk},
		{Tool: "list", Action: events.RuleGuard},
		{Tool: "later", Action: "sandbox"},
	}
	for name, want := range map[string]string{
		"fs_delete": "deny rule_denied", "fs_read": "none", "fs_write": "ask tool.call", "list": "ask tool.call", "later": "deny rule_denied", "other": "none",
	} {
		if got := ruling(evaluate(t, narrow, requestOf(t, name, "", nil))); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
