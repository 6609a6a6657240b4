package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/policy/agentfile"
)

// blocks are the indented examples of a page.
func blocks(page string) (all []string) {
	var b strings.Builder
	for line := range strings.Lines(page + "\nend") {
		switch text, code := strings.CutPrefix(line, "    "); {
		case code:
			b.WriteString(text)
		case strings.TrimSpace(line) != "" && b.Len() > 0:
			all = append(all, b.String())
			b.Reset()
		}
	}
	return all
}

// heredocs are the files that a block writes, by name.
func heredocs(block string) map[string]string {
	files := make(map[string]string)
	for part := range strings.SplitSeq("\n"+block, "\ncat > ") {
		if head, rest, ok := strings.Cut(part, " <<'YAML'\n"); ok {
			body, _, _ := strings.Cut(rest, "\nYAML\n")
			files[head] = body + "\n"
		}
	}
	return files
}

// It runs the first example of the page, and checks every agent file on it.
func TestTheExamplesOfAgentsMDRun(t *testing.T) {
	page, err := os.ReadFile("../../docs/agent-file.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	seen := 0
	for i, block := range blocks(string(page)) {
		for name, text := range heredocs(block) {
			seen++
			if d, err := agentfile.Parse(name, []byte(text), os.ReadFile); err != nil || d.Model == "" {
				t.Errorf("%s: %+v, %v", name, d, err)
			}
			if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for line := range strings.Lines(block) {
			if i == 0 && strings.HasPrefix(line, "turnlog ") {
				runCommand(t, line)
			}
		}
	}
	if seen == 0 {
		t.Error("the page has no agent file")
	}
	if _, err := os.Stat("agents/last-call.json"); err != nil {
		t.Errorf("the hook: %v", err)
	}
}

// runCommand runs a shell command of a kind that the page uses.
func runCommand(t *testing.T, line string) {
	t.Helper()
	line, _, _ = strings.Cut(line, "  #")
	line, quoted, _ := strings.Cut(line, ` "`)
	line, file, _ := strings.Cut(line, " > ")
	args := strings.Fields(line)[1:]
	if text := strings.TrimSuffix(strings.TrimSpace(quoted), `"`); text != "" {
		args = append(args, text)
	}
	p := expect(t, cli.CodeOK, args...)
	if strings.Contains(p.err.String(), "no tool on offer") {
		t.Errorf("%s: %s", line, p.err)
	}
	if file = strings.TrimSpace(file); file == "" {
		return
	}
	if err := os.WriteFile(file, []byte(p.out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}
