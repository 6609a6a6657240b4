// Command background-tool runs a tool that takes longer than the conversation waits: the model
// gets a placeholder at once, and the outcome starts another turn.
package main

import (
	"context"
	"log"
	"os"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

const script = `
replies:
  - calls: [{name: build, input: {}}]
  - text: The build is running. Ask me anything meanwhile.
  - text: "The build is done: it took a while, but it is green."
`

func main() {
	if err := run(context.Background(), log.New(os.Stdout, "", 0)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out *log.Logger) error {
	finish := make(chan struct{})
	d, err := start(ctx, finish)
	if err != nil {
		return err
	}
	res, err := d.RunText(ctx, "Build it.")
	if err != nil {
		return err
	}
	out.Println("assistant:", res.Response)
	for _, call := range d.Calls().List() {
		out.Printf("(%s %s runs in the background: %t)\n", call.Tool, call.Call, call.Background)
	}

	close(finish)
	if err := d.Calls().WaitIdle(ctx); err != nil {
		return err
	}
	res, err = d.Run(ctx) // without input: the outcome starts the turn
	if err != nil {
		return err
	}
	out.Println("assistant:", res.Response)
	for _, it := range res.Messages() {
		if it.Kind == content.Notification {
			out.Println("(notification:", it.Text()+")")
		}
	}
	return nil
}

func start(ctx context.Context, finish <-chan struct{}) (*session.Session, error) {
	build, err := tool.Func("build", "Builds the project.", func(ctx context.Context, _ struct{}) (string, error) {
		select {
		case <-finish:
			return "all green", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}, tool.WithSpec(func(s *tool.Spec) { s.Route = content.Background }))
	if err != nil {
		return nil, err
	}
	tools, err := tool.NewRegistry("project", build)
	if err != nil {
		return nil, err
	}
	m, err := scripted.Parse("builder", []byte(script))
	if err != nil {
		return nil, err
	}
	a, err := agent.New(agent.Config{
		Model: m, Tools: []tool.Source{tools}, TaskManager: task.Async(task.AsyncConfig{}), Policy: permission.AllowAll(),
	})
	if err != nil {
		return nil, err
	}
	return a.Start(ctx, agent.SessionConfig{})
}
