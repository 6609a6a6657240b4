package agent_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

func TestErrorsNameTheFailedPart(t *testing.T) {
	fails, err := tool.Func("fails", "Fails.", func(context.Context, struct{}) (string, error) {
		return "", tool.Failure("disk_full", "no space")
	})
	if err != nil {
		t.Fatal(err)
	}
	busy := &model.Error{Class: content.ClassRateLimit, Code: "429", Message: "slow down", RetryAfter: 3 * time.Second}
	for name, tc := range map[string]struct {
		config agent.Config
		want   error
		text   string
	}{
		"a tool": {
			agent.Config{
				Model: replies(modeltest.Calls(call("c1", "echo", `{"text":"a"}`), call("c2", "fails", `{}`))),
				Tools: []tool.Source{registry(t, fails), echo(t)}, OnToolError: agent.FailRun,
			},
			&session.ToolError{Call: "c2", Name: "fails", Code: "disk_full", Message: "Tool failed: no space"},
			"tool failed: fails (c2): Tool failed: no space",
		},
		"a mutator": {
			agent.Config{Model: replies(modeltest.Text("x")), Mutators: []extension.Mutator{
				placed{extension.BeforeModel, func(context.Context, *extension.Mutation) error { return errors.New("no idea") }},
			}},
			&session.MutatorError{Mutator: "placed", Point: extension.BeforeModel, Message: "no idea"},
			"mutator failed: placed at before_model: no idea",
		},
		"a provider": {
			agent.Config{
				Model: modeltest.NewFake("m", func(context.Context, model.Request) (model.Reply, error) { return model.Reply{}, busy }),
				Retry: events.Retry{ModelAttempts: 3},
			},
			&session.ProviderError{Class: content.ClassRateLimit, Code: "429", Message: "slow down", RetryAfter: 3 * time.Second, Attempts: 3},
			"model call failed (rate_limit): slow down",
		},
		"a provider with a code like ours": {
			agent.Config{Model: modeltest.NewFake("m", func(context.Context, model.Request) (model.Reply, error) {
				return model.Reply{}, &model.Error{Class: content.ClassOther, Code: "tool_failed", Message: "no"}
			})},
			&session.ProviderError{Class: content.ClassOther, Code: "tool_failed", Message: "no", Attempts: 1},
			"model call failed (other): no",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := start(t, tc.config)
			_, got := d.RunText(t.Context(), "go")
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreTypes(&session.RunResult{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			if errText(got) != tc.text {
				t.Errorf("%s: %v", name, got)
			}
		})
	}
}
