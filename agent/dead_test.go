package agent_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// The process that ran the call is gone, and so is its outcome.
func TestALostCallRunsAgainAfterAnApproval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, crash := context.WithCancel(t.Context())
		running, runs := make(chan struct{}), 0
		pay, err := tool.Func("pay", "Pays.", func(ctx context.Context, _ struct{}) (string, error) {
			if runs++; runs > 1 {
				return "paid", nil
			}
			close(running)
			<-ctx.Done()
			return "", context.Cause(ctx)
		})
		if err != nil {
			t.Fatal(err)
		}
		c := agent.Config{
			Model:   replies(modeltest.Calls(call("c1", "pay", `{}`)), modeltest.Text("unclear"), modeltest.Text("it is paid")),
			Tools:   []tool.Source{registry(t, pay)},
			Journal: journal.NewMemory(), Input: []content.Item{content.UserText("go")}, TaskManager: task.Async(task.AsyncConfig{}),
		}
		first := start(t, c)
		go func() {
			<-running
			crash()
		}()
		_, _ = first.Next(ctx)
		d := start(t, c)
		step[*session.AfterToolResult](t, d)
		step[*session.Finished](t, d)
		again := commands.SettleDeadLetter{Call: "c1", Retry: true}
		if err := d.Ask(t.Context(), again); reasonOf(err) != "may_repeat" {
			t.Errorf("Ask = %v", err)
		}
		again.MayRepeat = true
		if err := d.Ask(t.Context(), again); err != nil {
			t.Fatal(err)
		}
		got, err := d.Next(t.Context()) // starts the call, whose outcome may come before Next has looked
		if _, idle := got.(*session.AwaitingInput); idle {
			<-d.Ready()
			got, err = d.Next(t.Context())
		}
		if fin, ok := got.(*session.Finished); !ok || fin.Result.Text() != "it is paid" || runs != 2 {
			t.Errorf("Next = %+v, %v after %d runs", got, err, runs)
		}
	})
}
