package toolset

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/output"
)

func TestAgentsAddTheirSkillsAndDelegates(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range map[string]string{
		"skills/notes/SKILL.md": "---\nname: notes\ndescription: How to write notes\n---\nShort.\n",
		"lead.yaml":             "model: demo\ncontext: {skills: [skills]}\nagents: [tester]\n",
		"tester.yaml":           "model: demo\ndescription: Tests things\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lead, err := agentfile.Folder{Path: root}.Find(t.Context(), "lead", "")
	if err != nil {
		t.Fatal(err)
	}
	delegates, err := agentfile.Delegates(t.Context(), agentfile.Folder{Path: root}.Find, lead)
	if err != nil {
		t.Fatal(err)
	}
	var f Flags
	cmd := &cobra.Command{}
	f.Register(cmd, DefaultSet)
	if err := cmd.ParseFlags([]string{"--tools", "none", "--root", root}); err != nil {
		t.Fatal(err)
	}
	started, err := f.Start(t.Context(), Agents{[]*agentfile.Definition{lead}, delegates}, "test", clitest.NoEnv, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(started.Close)
	sources, err := started.Sources(output.NewMemory(0), nil, func(d *agentfile.Definition) (tool.Tool, error) {
		return tool.Func(agentfile.ToolOf(d.Name), d.Purpose(), func(context.Context, struct{}) (string, error) { return "", nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := tool.Sample(t.Context(), sources, tool.FirstWins)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range c.Offers {
		names = append(names, o.Spec.Name)
	}
	if want := []string{"agent_tester", "skill_activate"}; !slices.Equal(names, want) {
		t.Errorf("tools = %q, want %q", names, want)
	}
}
