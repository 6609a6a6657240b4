package skill_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/skill"
)

func write(t *testing.T, root, name, text string) {
	t.Helper()
	file := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func text(name, description, body string) string {
	return "---\nname: " + name + "\ndescription: " + description + "\nlicense: free\n---\n" + body
}

func source(t *testing.T, root string, folders ...string) *skill.Source {
	t.Helper()
	s, err := skill.New(root, folders...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// activate calls the source's tool.
func activate(t *testing.T, s *skill.Source, name string) content.ToolResult {
	t.Helper()
	tools, err := s.Tools(t.Context())
	if err != nil || len(tools) != 1 {
		t.Fatalf("Tools = %v, %v; want one", tools, err)
	}
	input, err := json.Marshal(map[string]string{"name": name})
	if err != nil {
		t.Fatal(err)
	}
	return tool.Invoke(t.Context(), tools[0], tool.Call{ID: "c", Name: skill.Tool, Input: input}).Result
}

func TestActivationReturnsTheSkill(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "skills/notes/SKILL.md", text("notes", "How we write\n  notes", "\nShort and true.\n"))
	write(t, root, "skills/notes/examples/one.md", "x")
	write(t, root, "skills/tests/SKILL.md", strings.ReplaceAll(text("tests", "How we test", "Always."), "\n", "\r\n"))
	s := source(t, root, "skills")

	tools, err := s.Tools(t.Context())
	if err != nil || len(tools) != 1 {
		t.Fatalf("Tools = %v, %v", tools, err)
	}
	spec := tools[0].Spec()
	if !strings.HasSuffix(spec.Description, "Skills:\n- notes: How we write notes\n- tests: How we test") {
		t.Errorf("description: %s", spec.Description)
	}
	if !strings.Contains(string(spec.InputSchema), `["notes","tests"]`) || spec.Effects != content.ReadOnly {
		t.Errorf("spec: %+v, want the names as an enumeration, and read only", spec)
	}
	want := "Short and true.\n\nFiles of this skill:\n- skills/notes/examples/one.md\n"
	for range 2 { // a second activation returns the same
		if diff := cmp.Diff(want, activate(t, s, "notes").Text()); diff != "" {
			t.Errorf("notes (-want +got):\n%s", diff)
		}
	}
	if got := activate(t, s, "tests").Text(); got != "Always.\n" {
		t.Errorf("tests = %q", got)
	}
}

func TestSkillsComeAndGo(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := source(t, root, "skills", "more")
	if tools, err := s.Tools(t.Context()); err != nil || tools != nil {
		t.Fatalf("without skills Tools = %v, %v", tools, err)
	}
	write(t, root, "more/a/SKILL.md", text("a", "of more", "More."))
	if got := activate(t, s, "a").Text(); got != "More.\n" {
		t.Errorf("a = %q", got)
	}
	write(t, root, "skills/a/SKILL.md", text("a", "of skills", "First."))
	if got := activate(t, s, "a").Text(); got != "First.\n" {
		t.Errorf("with two of one name a = %q, want that of the first folder", got)
	}
	write(t, root, "skills/b/SKILL.md", text("b", "stays", "B."))
	tools, err := s.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(root, "skills", "a")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(root, "more")); err != nil {
		t.Fatal(err)
	}
	got := tool.Invoke(t.Context(), tools[0], tool.Call{ID: "c", Name: skill.Tool, Input: []byte(`{"name":"a"}`)}).Result
	if got.Code != skill.CodeUnknown || !got.IsError {
		t.Errorf("of a skill that is gone: %+v", got)
	}
}

func TestInvalidSkillsAreLeftOutWithAReason(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "s/good/SKILL.md", text("good", "Fine", "."))
	write(t, root, "s/none/README.md", "not a skill, and no problem")
	write(t, root, "s/plain/SKILL.md", "no front matter")
	write(t, root, "s/open/SKILL.md", "---\nname: open\n")
	write(t, root, "s/other/SKILL.md", text("another", "x", ""))
	write(t, root, "s/Upper/SKILL.md", text("Upper", "x", ""))
	write(t, root, "s/silent/SKILL.md", text("silent", "", ""))
	write(t, root, "s/long/SKILL.md", text("long", strings.Repeat("x", 1025), ""))
	write(t, root, "s/yaml/SKILL.md", "---\nname: [\n---\n")
	write(t, root, "s/bytes/SKILL.md", "\xff")
	write(t, root, "s/huge/SKILL.md", strings.Repeat("x", 256<<10+1))
	s := source(t, root, "s")
	skills, problems, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]skill.Skill{{Name: "good", Description: "Fine", Folder: "s/good"}}, skills, cmpopts.IgnoreUnexported(skill.Skill{})); diff != "" {
		t.Errorf("skills (-want +got):\n%s", diff)
	}
	got := map[string]string{}
	for _, p := range problems {
		got[p.Folder] = p.Err.Error()
	}
	for folder, want := range map[string]string{
		"s/plain":  "does not begin with front matter",
		"s/open":   "does not begin with front matter",
		"s/other":  `name "another" differs from the folder name`,
		"s/Upper":  "use 1 to 64 of a-z, 0-9 and -",
		"s/silent": "the description is missing",
		"s/long":   "longer than 1024",
		"s/yaml":   "front matter of SKILL.md",
		"s/bytes":  "not UTF-8",
		"s/huge":   "more than 262144",
	} {
		if !strings.Contains(got[folder], want) {
			t.Errorf("%s: %q, want %q", folder, got[folder], want)
		}
		delete(got, folder)
	}
	if len(got) > 0 {
		t.Errorf("problems that are none: %v", got)
	}
}

func TestLinkCannotLeadOut(t *testing.T) {
	t.Parallel()
	outside, root := t.TempDir(), t.TempDir()
	write(t, outside, "x/SKILL.md", text("x", "secret", "secret"))
	write(t, root, "s/keep", "")
	if err := os.Symlink(filepath.Join(outside, "x"), filepath.Join(root, "s", "x")); err != nil {
		t.Fatal(err)
	}
	if skills, _, err := source(t, root, "s").List(t.Context()); err != nil || len(skills) > 0 {
		t.Errorf("Skills = %v, %v; want none", skills, err)
	}
}

func TestInvalidFoldersAreErrors(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "file", "")
	for want, folders := range map[string][]string{
		"name the folders":          nil,
		"use a path below the root": {"../x"},
	} {
		if _, err := skill.New(root, folders...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%q) = %v, want %q", folders, err, want)
		}
	}
	if _, err := skill.New(filepath.Join(root, "file"), "s"); err == nil {
		t.Error("a file can be a root")
	}
	if _, err := skill.New(filepath.Join(root, "none"), "s"); err == nil {
		t.Error("a root can be missing")
	}
}
