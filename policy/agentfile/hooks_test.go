package agentfile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

func TestHooksRunWhereTheOperatorAllowsThem(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"own.yaml": "model: m\nhooks: [{command: 'exit 2', points: [pre_tool_execution]}]\n"})
	own, err := dir.Find(t.Context(), "own", "")
	if err != nil {
		t.Fatal(err)
	}
	other := parse(t, "name: other\nmodel: m\nhooks: [{command: 'exit 2', points: [pre_tool_execution]}]\n")
	changed := parse(t, "name: own\nmodel: m\nhooks: [{command: 'rm -r /', points: [pre_tool_execution]}]\n")
	inFolder := func(ctx context.Context, name, version string) bool {
		_, err := dir.Find(ctx, name, version)
		return err == nil
	}
	plain := agentfile.Host{Models: opened, Find: dir.Find}
	withFolder, willing := plain, plain
	withFolder.Own, willing.Commands = inFolder, true
	begin := func(h agentfile.Host, d *agentfile.Definition) (events.Config, error) {
		ref, err := d.Ref()
		if err != nil {
			t.Fatal(err)
		}
		ref.Local = true // an opener may claim anything
		c, _, err := h.Begin(t.Context(), events.Config{Agent: ref})
		return c, err
	}
	for name, tc := range map[string]struct {
		host  agentfile.Host
		agent *agentfile.Definition
		local bool
		fails bool
	}{
		"of the folder":                   {host: withFolder, agent: own, local: true},
		"sent":                            {host: withFolder, agent: other, fails: true},
		"sent under a name of the folder": {host: withFolder, agent: changed, fails: true},
		"on a node without a folder":      {host: plain, agent: own, fails: true},
		"on a node that runs all":         {host: willing, agent: other},
	} {
		c, err := begin(tc.host, tc.agent)
		if tc.fails {
			if _, refused := errors.AsType[*commands.Rejection](err); !refused || !strings.Contains(err.Error(), "--agent-hooks") {
				t.Errorf("%s: Begin = %v, want a rejection that names the flag", name, err)
			}
			continue
		}
		if err != nil || c.Agent.Local != tc.local {
			t.Errorf("%s: Begin = %+v, %v", name, c.Agent, err)
			continue
		}
		// Every node runs hooks of an operator's file; only some run those of other agents.
		if e, err := plain.Equip(c); (err == nil) != tc.local || tc.local && len(e.Hooks) != 1 {
			t.Errorf("%s: another node: %+v, %v", name, e, err)
		}
		if e, err := willing.Equip(c); err != nil || len(e.Hooks) != 1 || e.Hooks[0].Name() != "hook_1" {
			t.Errorf("%s: a node with Commands: %+v, %v", name, e, err)
		}
	}
}

func TestASecretInAJournalDoesNotStopItsSession(t *testing.T) {
	t.Parallel()
	old := []byte(`{"model":"m","name":"a","mcp":{"x":{"url":"http://h/?token=t","headers":{"Authorization":"Bearer t"}}}}`)
	if _, err := agentfile.Parse("a", old, nil); err == nil {
		t.Error("a new session accepts it")
	}
	if d, err := agentfile.Recorded(events.Config{Agent: &events.AgentRef{Name: "a", Data: old}}); err != nil || d.Model != "m" {
		t.Errorf("Recorded = %v, %v", d, err)
	}
}

func TestAnAgentFollowsItsFile(t *testing.T) {
	t.Parallel()
	f := folder(t, map[string]string{"strict.yaml": `model: m
tools:
  - {name: peek, effects: read_only}
  - {name: say, permission: allow, max_output: 30}
  - {name: "*", permission: allow}
permissions: {kinds: {deny: [mail]}}
hooks:
  - {name: keeper, points: [pre_tool_execution], tools: [drop], command: ./keeper.sh}
  - {name: witness, points: [session_start], command: 'cat > input; echo "$TURNLOG_HOOK_AGENT in $(basename "$TURNLOG_HOOK_ROOT"), secret: $SECRET"'}
`, "keeper.sh": "#!/bin/sh\necho not that one >&2\nexit 2\n"})
	if err := os.Chmod(filepath.Join(f.Path, "keeper.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(t.TempDir(), "work")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	d, err := f.Find(t.Context(), "strict", "")
	if err != nil {
		t.Fatal(err)
	}
	made := func(name string) tool.Tool {
		x, err := tool.Func(name, "Does it.", func(_ context.Context, in mailing) (string, error) { return strings.Repeat(name, 20), nil })
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	tools, err := tool.NewRegistry("own", made("peek"), made("say"), made("drop"), made("send"))
	if err != nil {
		t.Fatal(err)
	}
	models := func(name string, _ []byte) (model.Model, error) {
		return scripted.Parse(name, []byte("replies:\n  - calls: [{name: peek}, {name: say, input: {kind: x}}, {name: drop}, {name: send, input: {kind: mail.send}}]\n"+
			"  - text: '{{range .Results}}{{.Text}};{{end}}'\n"))
	}
	cfg, err := d.Agent(t.Context(), agentfile.Kit{Models: models, Root: root, Folder: f.Path, Tools: []tool.Source{tools}, Policy: permission.AllowAll()})
	if err != nil {
		t.Fatal(err)
	}
	var seen decisions
	cfg.Observers = append(cfg.Observers, &seen)
	a, err := agent.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.Start(t.Context(), agent.SessionConfig{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.RunText(t.Context(), "go")
	if err != nil {
		t.Fatal(err)
	}
	peek := strings.Repeat("peek", 20)
	for _, want := range []string{peek + ";", "[… 30 bytes were cut here …]", "Tool call skipped: not that one", "kind_not_allowed"} {
		if !strings.Contains(res.Response, want) {
			t.Errorf("%q is missing in %s", want, res.Response)
		}
	}
	if raw, err := os.ReadFile(filepath.Join(f.Path, "input")); err != nil || !strings.Contains(string(raw), `"session_start"`) {
		t.Errorf("the hook saw %s, %v", raw, err)
	}
	want := []string{
		"session_start  continue [{witness strict in work, secret:}]",
		"pre_tool_execution  continue []", "pre_tool_execution  continue []",
		"pre_tool_execution keeper skip not that one[]",
	}
	if diff := cmp.Diff(want, seen.words); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

type mailing struct {
	Kind string `json:"kind,omitempty"`
}

func (m mailing) Describe() (kind, summary string, target any) { return m.Kind, "mail", m }

// decisions returns the decisions of hooks.
type decisions struct{ words []string }

func (d *decisions) HandleEvent(o extension.Observed) {
	if h, ok := o.Event.(events.HookDecided); ok {
		d.words = append(d.words, fmt.Sprint(h.Point, " ", h.Hook, " ", h.Action, " ", h.Reason, h.Notes))
	}
}
