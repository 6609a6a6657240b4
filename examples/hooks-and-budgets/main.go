// Command hooks-and-budgets shows what stops an agent: a hook that skips a call, a hook that ends
// the turn, and limits. Each leaves a partial result and a usable session.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"strings"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

const script = `
replies:
  - {text: I look., calls: [{name: read, input: {path: notes.txt}}, {name: read, input: {path: secret.txt}}]}
  - {text: "I saw: {{range .Results}}{{.Text}}. {{end}}"}
  - {text: I read on., calls: [{name: read, input: {path: a}}], usage: {input: 90, output: 5}}
  - {text: And on., calls: [{name: read, input: {path: b}}], usage: {input: 95, output: 5}}
  - {text: Nothing is left., calls: [{name: read, input: {path: c}}]}
  - {text: I publish the password.}
`

func main() {
	if err := run(context.Background(), log.New(os.Stdout, "", 0)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out *log.Logger) error {
	d, err := start(ctx)
	if err != nil {
		return err
	}
	for _, goal := range []string{"What do my files say?", "Read everything.", "Read one more.", "Go on."} {
		res, err := d.RunText(ctx, goal)
		limit, isLimit := errors.AsType[*session.UsageLimitError](err)
		veto, isVeto := errors.AsType[*session.HookTerminatedError](err)
		switch {
		case isLimit:
			out.Printf("%s\n  limit: %v; so far: %s\n", goal, err, limit.Partial.Response)
		case isVeto:
			out.Printf("%s\n  veto by %s: %s\n", goal, veto.Hook, veto.Reason)
		case err != nil:
			return err
		default:
			out.Printf("%s\n  %s\n", goal, res.Response)
		}
	}
	return nil
}

// secrets is a hook at two points: it skips calls and ends turns.
type secrets struct{}

// Name names the hook in the journal.
func (secrets) Name() string { return "secrets" }

// Points lists the points at which it is asked.
func (secrets) Points() []extension.Point {
	return []extension.Point{extension.PreToolExecution, extension.PostLlmCall}
}

// OnEvent protects secrets. Its decisions are recorded, so a replay does not ask again.
func (secrets) OnEvent(_ context.Context, e extension.HookEvent) (extension.Action, error) {
	switch {
	case e.Call != nil && strings.Contains(string(e.Call.Input), "secret"):
		return extension.Action{Kind: extension.Skip, Reason: "that file is secret"}, nil
	case e.Reply != nil && strings.Contains(e.Reply.Items[0].Text(), "password"):
		return extension.Action{Kind: extension.Terminate, Reason: "a reply names a password"}, nil
	}
	return extension.Action{}, nil
}

func start(ctx context.Context) (*session.Session, error) {
	type file struct {
		Path string `json:"path"`
	}
	read, err := tool.Func("read", "Reads a file.", func(_ context.Context, f file) (string, error) {
		return f.Path + " is empty", nil
	}, tool.ReadOnly())
	if err != nil {
		return nil, err
	}
	tools, err := tool.NewRegistry("files", read)
	if err != nil {
		return nil, err
	}
	m, err := scripted.Parse("reader", []byte(script))
	if err != nil {
		return nil, err
	}
	a, err := agent.New(agent.Config{
		Model: m, Tools: []tool.Source{tools}, Hooks: []extension.Hook{secrets{}},
		Limits:        events.Limits{TotalTokens: 150}, // of each turn
		SessionLimits: events.Limits{ToolCalls: 4},     // of all turns together
	})
	if err != nil {
		return nil, err
	}
	return a.Start(ctx, agent.SessionConfig{})
}
