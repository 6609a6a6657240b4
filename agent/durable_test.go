package agent_test

import (
	"context"
	"slices"
	"testing"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/tool"
)

// ledger is a durable wrapper that records the calls through it and, if known is set,
// answers tool calls itself.
type ledger struct {
	seen  []string
	known string // a tool's result from before
}

func (l *ledger) CallModel(
	ctx context.Context, r model.Request, next func(context.Context, model.Request) (model.Reply, error),
) (model.Reply, error) {
	l.seen = append(l.seen, "model")
	return next(ctx, r)
}

func (l *ledger) CallTool(
	ctx context.Context, c content.ToolCall, next func(context.Context, content.ToolCall) (content.ToolResult, error),
) (content.ToolResult, error) {
	l.seen = append(l.seen, c.Name+" "+string(c.Input))
	if l.known != "" {
		return content.NewResult(c.ID, c.Name, content.StatusOK, l.known), nil
	}
	return next(ctx, c)
}

func TestModelAndToolCallsUseTheDurableWrapper(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ known, want string }{"as it runs": {"", "shared hi"}, "as it ran": {"before", "before"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			greet, err := tool.CallFunc("greet", "Greets.", func(_ context.Context, c tool.Call, in echoInput) (string, error) {
				shared, ok := c.Resources.(string)
				if !ok {
					t.Errorf("the resources are %v", c.Resources)
				}
				return shared + " " + in.Text, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			l := &ledger{known: tc.known}
			d := start(t, agent.Config{
				Model: replies(modeltest.Calls(call("c1", "greet", `{"text":"hi"}`)), modeltest.Text("ok")),
				Tools: []tool.Source{registry(t, greet)}, Durable: l, Resources: "shared",
			})
			res, err := d.RunText(t.Context(), "go")
			if err != nil {
				t.Fatal(err)
			}
			if got := res.Messages()[2].Parts[0].Result.Text(); got != tc.want {
				t.Errorf("result = %q, want %q", got, tc.want)
			}
			if want := []string{"model", `greet {"text":"hi"}`, "model"}; !slices.Equal(l.seen, want) {
				t.Errorf("the wrapper saw %q, want %q", l.seen, want)
			}
		})
	}
}
