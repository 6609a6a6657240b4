// Command approvals lets a person decide what a tool may do: one call is approved with changed
// input, one is denied, and the model sees the reason.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

const script = `
replies:
  - text: I tell both.
    calls:
      - {name: send_mail, input: {to: everybody, text: We ship today.}}
      - {name: send_mail, input: {to: press, text: We ship today.}}
  - text: |-
      {{range .Results}}- {{.Text}}
      {{end}}
`

type mail struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

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
	for {
		step, err := d.Next(ctx)
		if err != nil {
			return err
		}
		switch step := step.(type) {
		case *session.AwaitingInput:
			err = step.Submit(ctx, content.UserText("Announce the release."))
		case *session.ApprovalRequest: // Next fails until it is decided
			err = decide(ctx, out, step)
		case *session.AfterToolResult:
			out.Println("round", step.Round, "is complete")
		case *session.Finished:
			out.Print(step.Result.Text())
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// decide plays the person, who may take minutes or days.
func decide(ctx context.Context, out *log.Logger, r *session.ApprovalRequest) error {
	var m mail
	if err := json.Unmarshal(r.Input, &m); err != nil {
		return fmt.Errorf("input of %s: %w", r.CallID, err)
	}
	out.Printf("%s wants to write to %s: %s\n", r.Tool, m.To, r.Reason)
	if m.To == "press" {
		return r.DenyWithReason(ctx, "the press is for people to talk to")
	}
	return r.ApproveWithInput(ctx, json.RawMessage(`{"to":"team","text":"We ship today."}`))
}

func start(ctx context.Context) (*session.Session, error) {
	send, err := tool.Func("send_mail", "Sends a mail.", func(_ context.Context, m mail) (string, error) {
		return "sent to " + m.To, nil
	})
	if err != nil {
		return nil, err
	}
	tools, err := tool.NewRegistry("mail", send)
	if err != nil {
		return nil, err
	}
	m, err := scripted.Parse("release", []byte(script))
	if err != nil {
		return nil, err
	}
	a, err := agent.New(agent.Config{
		Model: m, Tools: []tool.Source{tools},
		Permissions: permission.Rules{{Tool: "send_*", Action: events.RuleAsk}},
	})
	if err != nil {
		return nil, err
	}
	return a.Start(ctx, agent.SessionConfig{})
}
