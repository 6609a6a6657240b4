package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/cli"
)

func TestAWorkerOffersTheToolsOfItsAgents(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	root, dir := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(root, "skills", "notes", "SKILL.md"): "---\nname: notes\ndescription: How to write notes\n---\nShort.\n",
		filepath.Join(dir, "lead.yaml"): "context: {skills: [skills]}\nagents: [tester]\n" +
			"mcp: {x: {url: '" + serveMCP(t, "right").URL + "'}}\n",
		filepath.Join(dir, "tester.yaml"): "description: Tests what was made\nmodel: demo\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := d.start("--root", root, "--agents", dir)
	for _, name := range []string{"agent_tester", "skill_activate", "mcp_x_hi"} {
		d.eventually(name+" is on offer", func(ctx context.Context) bool { return d.hasTool(ctx, name) })
	}
	if d.hasTool(t.Context(), "agent_lead") {
		t.Error("an agent is on offer that is no delegate")
	}
	w.end()
}

func TestAFolderWithInvalidAgentsIsAUsageError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("agents: [absent]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{
		dir: filepath.Join(dir, "a.yaml") + `:1:10: agents[0]: no file in ` + dir + ` defines an agent "absent"`, filepath.Join(dir, "none"): "--agents: agents: open",
	} {
		if code, said := execute(t.Context(), "--server", "127.0.0.1:1", "--agents", at); code != cli.CodeUsage || !strings.Contains(said, want) {
			t.Errorf("code %d, %s", code, said)
		}
	}
}
