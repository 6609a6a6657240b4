package agent_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// says is a model with a script.
func says(script string) model.Model {
	m, err := scripted.Parse("example", []byte(script))
	if err != nil {
		log.Fatal(err)
	}
	return m
}

// offers is a source of one tool.
func offers(t tool.Tool, err error) []tool.Source {
	if err != nil {
		log.Fatal(err)
	}
	r, err := tool.NewRegistry("example", t)
	if err != nil {
		log.Fatal(err)
	}
	return []tool.Source{r}
}

// open starts a session of an agent.
func open(c agent.Config) *session.Session {
	a, err := agent.New(c)
	if err != nil {
		log.Fatal(err)
	}
	d, err := a.Start(context.Background(), agent.SessionConfig{})
	if err != nil {
		log.Fatal(err)
	}
	return d
}

// A turn can be stepped through, round by round.
func Example_steps() {
	ctx := context.Background()
	d := open(agent.Config{
		Model: says(`
replies:
  - calls: [{name: count, input: {}}]
  - text: "Three."
`),
		Tools: offers(tool.Func("count", "Counts.", func(context.Context, struct{}) (int, error) { return 3, nil }, tool.ReadOnly())),
	})
	turn, err := d.Submit(ctx, session.Input{Items: []content.Item{content.UserText("How many?")}})
	for err == nil {
		var step session.Step
		step, err = turn.Next(ctx)
		switch step := step.(type) {
		case *session.AfterToolResult:
			fmt.Println(step.Calls[0].Name, "said", step.Results[0].Text())
			err = step.Submit(ctx, content.UserText("Be brief."))
		case *session.Finished:
			fmt.Println(step.Result.Text())
			return
		case *session.ApprovalRequest, *session.AwaitingInput:
		}
	}
	log.Fatal(err)
	// Output:
	// count said 3
	// Three.
}

// A task is done when its verifier passes.
func Example_runTask() {
	attempts := 0
	verifier := verifier(func(context.Context, string) (bool, string, error) {
		attempts++
		return attempts > 1, "one test fails", nil
	})
	d := open(agent.Config{Model: says(`
replies:
  - text: "I fixed it."
  - text: "Now it is fixed."
`)})
	res, err := d.RunTask(context.Background(), session.Task{Goal: "Make the tests pass.", Verifier: verifier, MaxRetries: 3})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Status, res.Verified, res.Attempts, res.Summary)
	// A command is a verifier, too: extension.Command("go", "test", "./...").
	fmt.Println(extension.Argv(extension.Command("go", "test", "./...")))
	// Output:
	// done true 2 Now it is fixed.
	// [go test ./...]
}

// A call in the background is answered at once; its outcome wakes the session.
func Example_calls() {
	ctx := context.Background()
	finish := make(chan struct{})
	d := open(agent.Config{
		Model: says(`
replies:
  - calls: [{name: build, input: {}}]
  - text: "The build is running."
  - text: "The build is done."
`),
		Tools: offers(tool.Func("build", "Builds.", func(context.Context, struct{}) (string, error) {
			<-finish
			return "ok", nil
		})),
		Policy: permission.AllowAll(), // otherwise a person is asked about the build
		TaskManager: task.Async(task.AsyncConfig{Route: func(content.ToolCall, content.Routing) (content.Route, time.Duration) {
			return content.Background, 0
		}}),
	})
	res, err := d.RunText(ctx, "Build it.")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Response)
	fmt.Println(len(d.Calls().List()), "call is not over")
	close(finish)
	<-d.Ready()
	if res, err = d.Run(ctx); err != nil { // nothing to add: continue with what has arrived
		log.Fatal(err)
	}
	fmt.Println(res.Response)
	// Output:
	// The build is running.
	// 1 call is not over
	// The build is done.
}

// Unless a program says otherwise, a person has to approve calls of tools that do more than read.
// Next stops at such a call, and continues after the decision.
func ExampleApprovalRequest() {
	ctx := context.Background()
	d := open(agent.Config{
		Model: says(`
replies:
  - calls: [{name: pay, input: {amount: 90}}]
  - text: "{{(index .Results 0).Text}}"
`),
		Tools: offers(tool.Func("pay", "Pays.", func(_ context.Context, in struct {
			Amount int `json:"amount"`
		},
		) (string, error) {
			return fmt.Sprint("paid ", in.Amount), nil
		})),
		Input: []content.Item{content.UserText("Pay the bill.")},
	})
	for {
		step, err := d.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		switch step := step.(type) {
		case *session.ApprovalRequest:
			fmt.Println("may it run", step.Tool, string(step.Input)+"?")
			if err := step.ApproveWithInput(ctx, []byte(`{"amount":80}`)); err != nil {
				log.Fatal(err)
			}
		case *session.AfterToolResult:
		case *session.Finished:
			fmt.Println(step.Result.Text())
		case *session.AwaitingInput:
			return
		}
	}
	// Output:
	// may it run pay {"amount":90}?
	// paid 80
}
