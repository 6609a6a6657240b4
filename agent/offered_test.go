package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

func TestPatternsSelectTheOfferedTools(t *testing.T) {
	t.Parallel()
	var tools []tool.Tool
	for _, name := range []string{"fs_read", "fs_write"} {
		one, err := tool.Func(name, "Does it.", func(context.Context, struct{}) (string, error) { return "done " + name, nil })
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, one)
	}
	all, err := tool.NewRegistry("all", tools...)
	if err != nil {
		t.Fatal(err)
	}
	m, err := scripted.Parse("m", []byte("replies:\n  - calls: [{name: fs_read}, {name: fs_write}]\n  - text: '{{range .Results}}{{.Text}};{{end}}'\n"))
	if err != nil {
		t.Fatal(err)
	}
	kept := journal.NewMemory()
	a, err := agent.New(agent.Config{
		Model: m, Tools: []tool.Source{all}, Policy: permission.AllowAll(), Offered: []string{"!fs_write", "fs_*"}, Journal: kept,
		Agent: &events.AgentRef{Name: "reader", Version: "1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	d, err := a.Start(t.Context(), agent.SessionConfig{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	res, err := d.RunText(t.Context(), "go")
	if err != nil || res.Response != "done fs_read;Tool not found: fs_write;" {
		t.Errorf("Run = %+v, %v", res, err)
	}
	for rec, err := range kept.Read(t.Context(), "s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range rec.Entry.Events {
			if s, ok := ev.(events.RunStarted); ok && (s.Config.Agent == nil || s.Config.Agent.Name != "reader" || strings.Join(s.Config.Tools, " ") != "!fs_write fs_*") {
				t.Errorf("the journal says %+v", s.Config)
			}
		}
	}
}
