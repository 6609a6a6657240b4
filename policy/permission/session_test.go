package permission_test

import (
	"testing"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// A session asks the questions of a guarded tool one by one, then repeats the call.
func TestASessionAsksEveryQuestionOfAGuardedTool(t *testing.T) {
	t.Parallel()
	top := tree(t, "work/", "elsewhere/")
	w := write(t)
	outside := paths(t, top+"/work", permission.PathRules{Allow: []string{"."}})
	mode := says{Ruling: tool.Ask, RequestKind: "mode", Scope: "exclusive"}
	tools, err := tool.NewRegistry("test", tool.Wrap(w, permission.Guard(permission.All(outside, mode), w)))
	if err != nil {
		t.Fatal(err)
	}
	m, err := scripted.Parse("test", []byte("replies:\n  - calls: [{name: write, input: {path: ../elsewhere/x}}]\n  - text: done\n"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := agent.New(agent.Config{
		Model: m, Tools: []tool.Source{tools}, Policy: permission.AllowAll(), Input: []content.Item{content.UserText("go")},
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.Start(t.Context(), agent.SessionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	next := func() session.Step {
		t.Helper()
		step, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return step
	}
	for _, want := range []string{"filesystem.write", "mode"} {
		ask, ok := next().(*session.ApprovalRequest)
		if !ok || ask.RequestKind != want {
			t.Fatalf("step = %+v, want a question about %s", ask, want)
		}
		if err := ask.Approve(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if after, ok := next().(*session.AfterToolResult); !ok || after.Results[0].Text() != "wrote ../elsewhere/x" {
		t.Errorf("step = %+v", after)
	}
}
