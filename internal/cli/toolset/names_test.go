package toolset

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// TestNamesAndKindsMatchTheSets checks the lists that agent files are checked against.
func TestNamesAndKindsMatchTheSets(t *testing.T) {
	t.Parallel()
	sources, err := open(Names(), all(t))
	if err != nil {
		t.Fatal(err)
	}
	c, err := tool.Sample(t.Context(), sources, tool.FirstWins)
	if err != nil {
		t.Fatal(err)
	}
	known := toolNames()
	for _, o := range c.Offers {
		if name := o.Spec.Name; name != loop.VerifierTool && !slices.Contains(known, name) {
			t.Errorf("the list of toolNames in names.go lacks %s, so agent files cannot name it", name)
		}
		asks, ok := o.Tool.(tool.Proposer)
		if !ok {
			continue
		}
		requests, err := asks.Propose(t.Context(), tool.Call{Name: o.Spec.Name, Input: []byte("{}")})
		for _, r := range requests {
			if err == nil && r.Kind != "" && !slices.Contains(permission.RequestKinds(), r.Kind) {
				t.Errorf("permission.RequestKinds lacks %s of %s", r.Kind, o.Spec.Name)
			}
		}
	}
	for _, name := range known {
		offered := slices.ContainsFunc(c.Offers, func(o tool.Offer) bool { return o.Spec.Name == name })
		if !offered && name != "skill_activate" && name != "output_read" {
			t.Errorf("the list of toolNames in names.go has %s, which no set offers", name)
		}
	}
}

func TestThePageOfToolsNamesEachSetAndTool(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range Sets() {
		if !strings.Contains(string(page), "\n| `"+s.Name+"`") {
			t.Errorf("the table in docs/tools.md has no row for the set %s", s.Name)
		}
	}
	for _, name := range toolNames() {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/tools.md does not name the tool %s", name)
		}
	}
}

func TestPatternsOfSetsMatchTheirTools(t *testing.T) {
	t.Parallel()
	for _, s := range Sets() {
		tools, err := s.Open(all(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range tools {
			if name := x.Spec().Name; content.Matches(s.Pattern, name) == (name == loop.VerifierTool) {
				t.Errorf("the pattern %q of the set %s in toolset.go is wrong for its tool %s", s.Pattern, s.Name, name)
			}
		}
	}
}

func TestMisspelledPatternIsReported(t *testing.T) {
	t.Parallel()
	for _, pattern := range append(toolNames(), "*", "fs_*", "*_file", "deploy", "tickets_*", "fs_archive_folder", "mail_*") {
		if err := CheckPattern(pattern); err != nil {
			t.Errorf("CheckPattern(%q) = %v", pattern, err)
		}
	}
	for pattern, want := range map[string]string{
		"fs_raed_file": "did you mean fs_read_file?", "shell_exce": "did you mean shell_exec?", "fs": `write "fs_*"`, "shell": `write "shell_exec"`,
		"shel_*": "did you mean shell_*?", "Fs_*": "did you mean fs_*?", "gate": "models do not see", "http-fetch": "did you mean http_fetch?",
	} {
		if err := CheckPattern(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("CheckPattern(%q) = %v, want %q", pattern, err, want)
		}
	}
	if !content.Matches("fs_*", "fs_count") {
		t.Error("patterns do not fit as they did")
	}
}
