package permission_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// Rules come from the client that starts a session; the host adds its own policy.
func ExampleAll() {
	host, err := permission.NewCommands("", permission.CommandRules{Allow: []string{"go", "git"}})
	if err != nil {
		panic(err)
	}
	rules := permission.Rules{{Tool: "fs_*", Action: events.RuleAllow}, {Tool: "shell_exec", Action: events.RuleAllow}}
	policy := permission.All(rules, host)
	for _, argv := range []string{`["go","test"]`, `["make"]`, `["sh","-c","go test"]`} {
		v, err := policy.Evaluate(context.Background(), tool.Request{
			Call: content.ToolCall{Name: "shell_exec"}, Kind: "shell.command", Target: json.RawMessage(`{"argv":` + argv + `}`),
		})
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: allowed %t %q %q\n", argv, v.Ruling == tool.Allow, v.RequestKind, v.Reason)
	}
	// Output:
	// ["go","test"]: allowed true "" ""
	// ["make"]: allowed false "shell.command" "sensitive_command"
	// ["sh","-c","go test"]: allowed false "shell.script" "escalated_risk"
}

// A worker judges paths where the files are.
func ExampleNewPaths() {
	policy, err := permission.NewPaths("/nowhere/project", permission.PathRules{
		Protect: []string{".git"}, ReadOnly: []string{"vendor"}, Allow: []string{"."},
	})
	if err != nil {
		panic(err)
	}
	for _, path := range []string{"main.go", "vendor/x.go", ".git/config", "../other"} {
		v, err := policy.Evaluate(context.Background(), tool.Request{
			Kind: "filesystem.write", Summary: "write " + path, Target: json.RawMessage(`{"path":"` + path + `"}`),
		})
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: %s%s%s\n", path, v.Code, v.RequestKind, map[bool]string{true: "allowed"}[v.Ruling == tool.Allow])
	}
	// Output:
	// main.go: allowed
	// vendor/x.go: path_read_only
	// .git/config: path_protected
	// ../other: filesystem.write
}
