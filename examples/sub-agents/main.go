// Command sub-agents lets one agent delegate work to another, which has its own session, tools
// and limits. Its approvals are requested in the first session, and its usage counts there too.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

const editor = `
replies:
  - calls: [{name: research, input: {prompt: "When was {{.Prompt}} founded?"}}]
    usage: {input: 20, output: 5}
  - text: "For the box: {{(index .Results 0).Text}}"
    usage: {input: 40, output: 10}
`

const researcher = `
replies:
  - calls: [{name: archive, input: {question: "{{.Prompt}}"}}]
    usage: {input: 30, output: 5}
  - text: "The archive says {{(index .Results 0).Text}}."
    usage: {input: 60, output: 10}
`

func main() {
	if err := run(context.Background(), log.New(os.Stdout, "", 0)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out *log.Logger) error {
	sessions := journal.NewMemory() // of both agents
	research, err := newResearcher(sessions)
	if err != nil {
		return err
	}
	d, err := startEditor(ctx, sessions, research)
	if err != nil {
		return err
	}
	for {
		step, err := d.Next(ctx)
		if err != nil {
			return err
		}
		switch step := step.(type) {
		case *session.AwaitingInput:
			err = step.Submit(ctx, content.UserText("Turnlog"))
		case *session.ApprovalRequest: // the researcher's; it continues where it was
			out.Println("approved:", step.Summary)
			err = step.Approve(ctx)
		case *session.AfterToolResult:
		case *session.Finished:
			out.Println(step.Result.Text())
			u := step.Result.Usage
			out.Printf("both used %d tokens in, %d out\n", u.InputTokens, u.OutputTokens)
			return show(ctx, out, sessions, engine.ChildID("editor", content.PlaceOf(1, 1, 1)))
		}
		if err != nil {
			return err
		}
	}
}

// newResearcher returns an agent as a tool.
func newResearcher(sessions journal.Journal) (tool.Tool, error) {
	archive, err := tool.Func("archive", "Looks into the archive.", func(_ context.Context, _ struct {
		Question string `json:"question"`
	},
	) (string, error) {
		return "it is too young for the archive", nil
	})
	if err != nil {
		return nil, err
	}
	tools, err := tool.NewRegistry("archive", archive)
	if err != nil {
		return nil, err
	}
	m, err := scripted.Parse("researcher", []byte(researcher))
	if err != nil {
		return nil, err
	}
	a, err := agent.New(agent.Config{
		Model: m, Tools: []tool.Source{tools}, Journal: sessions, Limits: events.Limits{MaxRounds: 5},
	})
	if err != nil {
		return nil, err
	}
	return a.Tool("research", "Finds out about one question.")
}

func startEditor(ctx context.Context, sessions journal.Journal, research tool.Tool) (*session.Session, error) {
	tools, err := tool.NewRegistry("staff", research)
	if err != nil {
		return nil, err
	}
	m, err := scripted.Parse("editor", []byte(editor))
	if err != nil {
		return nil, err
	}
	a, err := agent.New(agent.Config{Model: m, Tools: []tool.Source{tools}, Journal: sessions, Policy: permission.AllowAll()})
	if err != nil {
		return nil, err
	}
	return a.Start(ctx, agent.SessionConfig{ID: "editor"})
}

// show prints the calls in a session's journal.
func show(ctx context.Context, out *log.Logger, j journal.Journal, id content.SessionID) error {
	for rec, err := range j.Read(ctx, id, 0) {
		if err != nil {
			return fmt.Errorf("read %s: %w", id, err)
		}
		for _, ev := range rec.Entry.Events {
			switch ev := any(ev).(type) {
			case events.RunStarted:
				out.Printf("%s works for %s\n", id, ev.Parent)
			case events.ApprovalResolved:
				out.Printf("%s: %s %s, %s\n", id, ev.Call, ev.Outcome, ev.Reason)
			case events.TurnFinished:
				out.Printf("%s: %s after %d rounds\n", id, ev.FinishReason, ev.Rounds)
			}
		}
	}
	return nil
}
