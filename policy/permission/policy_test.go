package permission_test

import (
	"encoding/json"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

func TestAWrittenPolicyJudgesLikeItsParts(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, tc := range []struct {
		policy, kind, target string
		want                 tool.Ruling
		code                 string
	}{
		{`{}`, "filesystem.write", `{"path":"a"}`, tool.NoOpinion, ""},
		{`{"paths":{"protect":[".git"]}}`, "filesystem.read", `{"path":".git/config"}`, tool.Deny, permission.CodeProtected},
		{`{"paths":{"read_only":["vendor"]}}`, "filesystem.write", `{"path":"vendor/x"}`, tool.Deny, permission.CodeReadOnly},
		{`{"paths":{"allow":["src"]}}`, "filesystem.write", `{"path":"src/x"}`, tool.Allow, ""},
		{`{"paths":{"allow":["src"]}}`, "filesystem.write", `{"path":"x"}`, tool.Ask, ""},
		{`{"paths":{"allow":["src"],"outside":"deny"}}`, "filesystem.write", `{"path":"x"}`, tool.Deny, permission.CodePath},
		{`{"commands":{"allow":["go"]}}`, "shell.command", `{"argv":["go","test"]}`, tool.Allow, ""},
		{`{"commands":{"allow":["go"],"outside":"deny"}}`, "shell.command", `{"argv":["make"]}`, tool.Deny, permission.CodeCommand},
		{`{"commands":{"ask":["git"]}}`, "shell.command", `{"argv":["git","push"]}`, tool.Ask, ""},
		{`{"commands":{"deny":["rm"]}}`, "shell.command", `{"argv":["/bin/rm","x"]}`, tool.Deny, permission.CodeCommand},
		{`{"commands":{"code":"deny"}}`, "shell.command", `{"argv":["sh","-c","ls"]}`, tool.Deny, permission.CodeScript},
		{`{"commands":{"code":"allow"}}`, "shell.command", `{"argv":["sh","-c","ls"]}`, tool.Allow, ""},
		{`{"servers":{"trust":["docs"],"outside":"deny"}}`, "mcp.tool", `{"server":"other"}`, tool.Deny, permission.CodeServer},
		{`{"kinds":{"deny":["mail"]}}`, "mail.send", `{}`, tool.Deny, permission.CodeKind},
		{`{"kinds":{"deny":["mail"]},"paths":{"allow":["."]}}`, "filesystem.write", `{"path":"x"}`, tool.Allow, ""},
	} {
		p := permission.Read(json.RawMessage(tc.policy), root)
		v, err := p.Evaluate(t.Context(), tool.Request{Kind: tc.kind, Target: json.RawMessage(tc.target)})
		if err != nil || v.Ruling != tc.want || v.Code != tc.code {
			t.Errorf("%s of %s %s: %+v, %v; want %v %s", tc.policy, tc.kind, tc.target, v, err, tc.want, tc.code)
		}
	}
}

// A policy that cannot be read, such as one of a later release, denies everything.
func TestAnUnreadablePolicyDeniesEverything(t *testing.T) {
	t.Parallel()
	for _, written := range []string{
		``, `[]`, `{`, `{"disks":{"allow":["sda"]}}`, `{"paths":{"hide":["x"]}}`, `{"paths":{"outside":"allow"}}`,
		`{"commands":{"code":"maybe"}}`, `{"commands":{"allow":["bin/x"]}}`, `{}{}`,
	} {
		v, err := permission.Read(json.RawMessage(written), t.TempDir()).Evaluate(t.Context(), tool.Request{Kind: "filesystem.read"})
		if err != nil || v.Ruling != tool.Deny || v.Code != permission.CodePolicy {
			t.Errorf("%q: %+v, %v", written, v, err)
		}
	}
}

// A permanent approval covers no other command, also not of the same program.
func TestAskedQuestionIsAboutTheCommand(t *testing.T) {
	t.Parallel()
	p := commands(t, t.TempDir(), permission.CommandRules{Ask: []string{"git", "hg"}})
	scopes := make(map[string]bool)
	for _, argv := range [][]string{{"git", "push"}, {"git", "push", "--force"}, {"/usr/bin/git", "push"}} {
		v := evaluate(t, p, run(t, command{Argv: argv}))
		if ruling(v) != "ask shell.command" || v.Reason != content.SensitiveCommand || v.Scope == "" || scopes[v.Scope] {
			t.Errorf("verdict on %v = %+v", argv, v)
		}
		scopes[v.Scope] = true
	}
	if got := ruling(evaluate(t, p, run(t, command{Argv: []string{"ls"}}))); got != "allow" {
		t.Errorf("another program: %s, want allow", got)
	}
}
