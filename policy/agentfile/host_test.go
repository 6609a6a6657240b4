package agentfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/internal/testing/sample"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/policy/notes"
	"github.com/turnlog/turnlog/tool"
)

func parse(t *testing.T, text string) *agentfile.Definition {
	t.Helper()
	d, err := agentfile.Parse("a.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// folder returns a folder with the files, by name.
func folder(t *testing.T, files map[string]string) agentfile.Folder {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		sample.WriteProgram(t, filepath.Join(dir, name), text, 0o600)
	}
	return agentfile.Folder{Path: dir}
}

func opened(name string, data []byte) (model.Model, error) {
	if data == nil {
		return nil, errors.New("there is no model " + name)
	}
	return scripted.Parse(name, data)
}

func TestAnAgentIsOfferedTheToolsOfItsFile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text    string
		offered []string
		not     []string
	}{
		{"model: demo", []string{"fs_read_file"}, []string{"agent_tester"}},
		{"agents: [tester]", []string{"fs_read_file", "agent_tester"}, []string{"agent_other"}},
		{"tools: [{name: 'fs_*'}]\nagents: [tester]", []string{"fs_read_file", "agent_tester"}, []string{"shell_exec", "skill_activate"}},
		{"tools: [{name: 'shell_*', permission: deny}, {name: '*'}]", []string{"fs_read_file"}, []string{"shell_exec"}},
		{"tools: [{name: 'shell_*', permission: deny}]", nil, []string{"shell_exec", "fs_read_file"}},
		{"tools: [{name: 'fs_*'}]\ncontext: {skills: [skills]}", []string{"skill_activate"}, []string{"shell_exec"}},
	} {
		c, err := parse(t, tt.text).Merge(events.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Concat(tt.offered, tt.not) {
			want := slices.Contains(tt.offered, name)
			if got := engine.Offered(c.Tools, tool.Spec{Name: name}); got != want {
				t.Errorf("%q: %s is offered: %t, want %t", tt.text, name, got, want)
			}
		}
	}
}

func TestASessionMayOverrideItsAgent(t *testing.T) {
	t.Parallel()
	d := parse(t, "model: demo\nfallback: ['a:b?c=d']\ntools: [{name: x, permission: ask, route: background}]\nlimits: {rounds: 5, tokens: 100}\n")
	c, err := d.Merge(events.Config{
		Model: "scripted:s", ModelData: []byte("replies: []"), Rules: []events.Rule{{Tool: "y", Action: events.RuleAllow}},
		Limits: events.Limits{MaxRounds: 9, TotalTokens: 10},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Model != "scripted:s" || len(c.ModelData) == 0 || c.Agent.Name != "a" || c.Agent.Version == "" {
		t.Errorf("Merge = %+v", c)
	}
	if want := (events.Limits{MaxRounds: 5, TotalTokens: 10}); c.Limits != want {
		t.Errorf("limits = %+v, want the tighter ones, %+v", c.Limits, want)
	}
	rules := []events.Rule{{Tool: "y", Action: events.RuleAllow}, {Tool: "x", Action: events.RuleAsk}}
	if diff := cmp.Diff(rules, c.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if alone, err := d.Merge(events.Config{}); err != nil || alone.Model != "fallback:demo,a:b%3Fc=d" {
		t.Errorf("the model is %q, %v", alone.Model, err)
	}
	for name, asked := range map[string]events.Config{
		"tools": {Tools: []string{"*"}}, "output": {Output: &events.Output{}}, "retry": {Retry: events.Retry{ModelAttempts: 2}},
		"approvals": {ApprovalTTL: time.Hour}, "parallel": {MaxParallel: 2},
	} {
		if _, err := d.Merge(asked); err == nil {
			t.Errorf("%s can be overridden", name)
		}
	}
}

func TestASessionOfABadAgentIsRefused(t *testing.T) {
	t.Parallel()
	h := agentfile.Host{Models: opened, Find: folder(t, map[string]string{
		"good.yaml": "model: demo\nsystem: Be good.\n", "dumb.yaml": "system: x\n", "bad.yaml": "engine: x",
		"big.yaml": "model: demo\nsystem: " + strings.Repeat("x", 70<<10),
	}).Find}
	c, prompt, err := h.Begin(t.Context(), events.Config{Agent: &events.AgentRef{Name: "good"}})
	if err != nil || c.Model != "demo" || len(prompt) != 1 || prompt[0].Kind != content.System || len(c.Agent.Data) == 0 {
		t.Fatalf("Begin = %+v, %v, %v", c, prompt, err)
	}
	again, _, err := agentfile.Host{}.Begin(t.Context(), events.Config{Agent: c.Agent})
	if !c.Agent.Known || again.Agent.Known {
		t.Errorf("known to the host that has it: %t, to one without agents: %t", c.Agent.Known, again.Agent.Known)
	}
	for name, asked := range map[string]events.Config{
		"model": {Model: "scripted:x"}, "allow": {Rules: []events.Rule{{Tool: "*", Action: events.RuleAllow}}}, "guard": {Rules: []events.Rule{{Tool: "*", Action: events.RuleGuard}}},
	} {
		asked.Agent = &events.AgentRef{Name: "good"}
		if changed, _, err := h.Begin(t.Context(), asked); err != nil || changed.Agent.Known {
			t.Errorf("%s: the policy takes it for the agent: %t, %v", name, changed.Agent.Known, err)
		}
	}
	asked := events.Config{Agent: &events.AgentRef{Name: "good"}, Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}}, Limits: events.Limits{Requests: 3}}
	if narrowed, _, err := h.Begin(t.Context(), asked); err != nil || !narrowed.Agent.Known {
		t.Errorf("an opener that only narrows: %+v, %v", narrowed.Agent, err)
	}
	again.Agent.Known = true
	if diff := cmp.Diff(c, again); err != nil || diff != "" {
		t.Errorf("its definition differs: %v\n%s", err, diff)
	}
	h.Model = "x:default"
	for name, model := range map[string]string{"good": "demo", "dumb": "x:default"} {
		if c, _, err := h.Begin(t.Context(), events.Config{Agent: &events.AgentRef{Name: name}}); err != nil || c.Model != model || !c.Agent.Known {
			t.Errorf("%s has the model %q, want %q: %+v, %v", name, c.Model, model, c.Agent, err)
		}
	}
	h.Model = ""
	for want, ref := range map[string]events.AgentRef{
		commands.ReasonUnknownAgent: {Name: "none"},
		commands.ReasonTooLarge:     {Name: "big"},
		"bad.yaml:1:1":              {Name: "bad"},
		"has no model":              {Name: "dumb"},
		"unknown field":             {Name: "a", Data: []byte(`{"engine":"x"}`)},
		"is JSON of at":             {Name: "a", Data: []byte("model: m\n")},
		"has version":               {Name: "good", Version: "0", Data: c.Agent.Data},
	} {
		_, _, err := h.Begin(t.Context(), events.Config{Agent: &ref})
		if _, ok := errors.AsType[*commands.Rejection](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want a rejection with %q", ref.Name, err, want)
		}
	}
}

func TestAFolderIsReadEachTime(t *testing.T) {
	t.Parallel()
	f := folder(t, map[string]string{"one.yaml": "model: a\n", "two.yml": "name: other\n", "bad.yaml": "engine: x", "three.yaml": "name: other\n", "notes.txt": ""})
	all, err := f.List()
	problems, ok := errors.AsType[agentfile.Problems](err)
	if !ok || len(problems) != 2 || len(all) != 2 || all[0].Name != "one" || all[1].Name != "other" {
		t.Fatalf("List = %v, %v", all, err)
	}
	before, err := f.Find(t.Context(), "one", "")
	if err != nil {
		t.Fatal(err)
	}
	version, err := before.Version()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Find(t.Context(), "one", version); err != nil {
		t.Errorf("Find of the version = %v", err)
	}
	if err := os.WriteFile(filepath.Join(f.Path, "one.yaml"), []byte("model: b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if d, err := f.Find(t.Context(), "one", ""); err != nil || d.Model != "b" {
		t.Errorf("Find = %+v, %v; want the current content", d, err)
	}
	if _, err := f.Find(t.Context(), "one", version); !errors.Is(err, agentfile.ErrUnknown) {
		t.Errorf("Find of the version that is gone = %v, want ErrUnknown", err)
	}
}

func TestAnAgentConfiguresItsHost(t *testing.T) {
	t.Parallel()
	d := parse(t, "model: own\ngate: {command: make check, max_retries: 2}\nmemory: {scope: all}\nguardrails: {input: [{max_length: 9}]}\n"+
		"compaction: {items: 9, steps: [{summarise: {}}]}\n")
	c, err := d.Merge(events.Config{})
	if err != nil {
		t.Fatal(err)
	}
	notes := notes.NewLocal()
	e, err := agentfile.Host{Models: opened, Notes: notes}.Equip(c)
	if err != nil || len(e.Hooks) != 1 || len(e.Mutators) != 1 || e.Retries != 2 || len(e.Verifier) != 3 {
		t.Fatalf("Equip = %+v, %v; want it even if the model of summaries cannot be opened", e, err)
	}
	if err := e.Notes.Remember(t.Context(), "goal", "came of it"); err != nil {
		t.Fatal(err)
	}
	if all, err := notes.Notes(t.Context(), "all"); err != nil || len(all) != 1 {
		t.Errorf("shared notes are %v, %v", all, err)
	}
	if e, err := (agentfile.Host{}).Equip(events.Config{}); err != nil || e.Notes != nil {
		t.Errorf("a session without an agent adds %+v, %v", e, err)
	}
}

// A node that lacks the key of a model drives sessions that never call it.
func TestAModelOfSummariesOpensOnItsFirstCall(t *testing.T) {
	t.Parallel()
	d := parse(t, "model: own\ncompaction: {items: 2, steps: [{summarise: {keep_items: 1, max_tokens: 10}}]}\n")
	c, err := d.Merge(events.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for script, want := range map[string]string{"": "there is no model own", "replies: [{text: They talked.}]": ""} {
		c.ModelData = nil
		if script != "" {
			c.ModelData = []byte(script)
		}
		e, err := agentfile.Host{Models: opened}.Equip(c)
		if err != nil {
			t.Fatal(err)
		}
		long := content.UserText(strings.Repeat("many words ", 50))
		m := extension.Mutation{Point: extension.BeforeModel, Items: []content.Item{long, content.AssistantText("yes"), content.UserText("and now?")}}
		err = e.Mutators[0].Mutate(t.Context(), &m)
		if summarized := len(m.Items) == 2; summarized != (want == "") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("with the script %q: %v, left %v", script, err, m.Items)
		}
	}
}

func TestServersHaveUniqueNames(t *testing.T) {
	t.Parallel()
	a, b := parse(t, "mcp: {x: {command: [p], timeout: 3s, ignore_hints: true}}"), parse(t, "mcp: {x: {command: [q]}}")
	if s, err := agentfile.Servers(a, a); err != nil || len(s) != 1 || s[0].Timeout != 3*time.Second || !s[0].IgnoreHints {
		t.Errorf("Servers = %+v, %v", s, err)
	}
	if _, err := agentfile.Servers(a, b); err == nil {
		t.Error("two servers have one name")
	}
}

func TestCyclesOfDelegationEnd(t *testing.T) {
	t.Parallel()
	f := folder(t, map[string]string{"a.yaml": "model: m\nagents: [b]\n", "b.yaml": "model: m\nagents: [a]\n", "c.yaml": "agents: [absent]"})
	a, err := f.Find(t.Context(), "a", "")
	if err != nil {
		t.Fatal(err)
	}
	others, err := agentfile.Delegates(t.Context(), f.Find, a)
	if err != nil || len(others) != 2 {
		t.Errorf("Delegates = %v, %v", others, err)
	}
	kit := agentfile.Kit{Find: f.Find, Models: func(string, []byte) (model.Model, error) { return scripted.Parse("m", []byte("replies: [{text: x}]")) }}
	if _, err := a.Agent(t.Context(), kit); err == nil || !strings.Contains(err.Error(), "a → b → a") {
		t.Errorf("Agent = %v, want the circle", err)
	}
	c, err := f.Find(t.Context(), "c", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := agentfile.Delegates(t.Context(), f.Find, c); !errors.Is(err, agentfile.ErrUnknown) {
		t.Errorf("Delegates = %v, want ErrUnknown", err)
	}
}

func TestAnAgentRunsInThisProcess(t *testing.T) {
	t.Parallel()
	f := folder(t, map[string]string{
		"lead.yaml":   "model: lead\nsystem: Lead.\ncontext: {agents_md: nearest, skills: [skills]}\ntools: [{name: shell, permission: deny}]\nagents: [tester]\nfail_run: true\nmax_parallel: -1\n",
		"tester.yaml": "model: tester\n",
		"AGENTS.md":   "Use tabs.\n",
	})
	skill := filepath.Join(f.Path, "skills", "notes")
	if err := os.MkdirAll(skill, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(skill, "SKILL.md"), []byte("---\nname: notes\ndescription: Notes\n---\nBe short.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lead, err := f.Find(t.Context(), "lead", "")
	if err != nil {
		t.Fatal(err)
	}
	models := func(name string, _ []byte) (model.Model, error) {
		if name == "tester" {
			return scripted.Parse(name, []byte("replies: [{text: It works.}]"))
		}
		return scripted.Parse(name, []byte("replies:\n  - calls: [{name: skill_activate, input: {name: notes}}, {name: agent_tester, input: {prompt: Test.}}]\n"+
			"  - text: '{{range .Results}}{{.Text}};{{end}}'\n"))
	}
	cfg, err := lead.Agent(t.Context(), agentfile.Kit{Models: models, Root: f.Path, Find: f.Find})
	if err != nil {
		t.Fatal(err)
	}
	a, err := agent.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	d, err := a.Start(t.Context(), agent.SessionConfig{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	res, err := d.RunText(t.Context(), "go")
	if err != nil || res.Response != "Be short.\n;It works.;" {
		t.Errorf("the agent answers %+v, %v", res, err)
	}
	if !strings.Contains(res.Messages()[1].Text(), "Use tabs.") {
		t.Errorf("the prompt is %q", res.Messages()[1].Text())
	}
	if cfg.Agent == nil || cfg.OnToolError != agent.FailRun {
		t.Errorf("Agent = %+v", cfg)
	}
}

func TestASessionHasTheSettingsOfItsFile(t *testing.T) {
	t.Parallel()
	d, err := agentfile.Parse("full.yaml", []byte(full), files())
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.Merge(events.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Retry.ModelAttempts != 2 || !c.Retry.AskLost || c.ApprovalTTL != 24*time.Hour || c.Output == nil || c.Cache.Mode != "best_effort" ||
		len(c.Routes) != 1 || c.Routes[0].DetachAfter != 30*time.Second || c.Model != d.ModelName() || c.Limits.WallClock != 10*time.Minute {
		t.Errorf("Session = %+v", c)
	}
	e, err := agentfile.Host{Models: opened, Commands: true}.Equip(c)
	if err != nil || len(e.Hooks) != 3 || e.Hooks[0].Name() != "guardrail" {
		t.Errorf("Equip = %+v, %v", e, err)
	}
}

func TestEveryStepOfACompactionIsAStrategy(t *testing.T) {
	t.Parallel()
	d := parse(t, `model: m
compaction:
  items: 9
  steps: [{drop_reasoning: true}, {drop_failed_results: true}, {keep_items: 1}, {keep_turns: 1}, {keep_tokens: 1}, {summarise: {model: n}}]
`)
	var asked []string
	m, err := d.Mutators(func(name string) (model.Model, error) {
		asked = append(asked, name)
		return opened(name, []byte("replies: [{text: hi}]"))
	})
	if err != nil || len(m) != 1 || !slices.Equal(asked, []string{"n"}) {
		t.Errorf("Mutators = %v, %v; opened %q", m, err, asked)
	}
	recorded, err := agentfile.Recorded(events.Config{Agent: &events.AgentRef{Data: []byte(`{"compaction":{"items":1,"steps":[{}]}}`)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := recorded.Mutators(nil); err == nil {
		t.Error("a recorded step without a strategy is accepted")
	}
}

func TestPathsAreDistinguishedFromNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"a": false, "a.yaml": true, "a.json": true, "./a": true, "dir/a.yml": true} {
		if got := agentfile.IsFile(text); got != want {
			t.Errorf("IsFile(%q) = %t, want %t", text, got, want)
		}
	}
}
