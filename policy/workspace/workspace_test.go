package workspace_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/policy/workspace"
)

// folder returns a folder with the files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func paths(items []content.Item) []string {
	var out []string
	for _, it := range items {
		out = append(out, it.Metadata.Text(workspace.MetaPath))
	}
	return out
}

func TestAgentsMDReadsTheFolderAndItsParents(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"AGENTS.md": "not of this repository", "repo/.git/HEAD": "", "repo/AGENTS.md": "Be kind.",
		"repo/a/AGENTS.md": "Be brief.", "repo/a/b/c.txt": "", "plain/x/c.txt": "", "plain/AGENTS.md": "above",
	})
	for _, tt := range []struct {
		folder string
		which  workspace.Which
		want   []string
	}{
		{"repo/a/b", workspace.Nearest, []string{"../AGENTS.md"}},
		{"repo/a/b", workspace.All, []string{"../../AGENTS.md", "../AGENTS.md"}},
		{"repo/a", workspace.All, []string{"../AGENTS.md", "AGENTS.md"}},
		{"repo", workspace.All, []string{"AGENTS.md"}},
		{"plain", workspace.All, []string{"AGENTS.md"}},
		{"plain/x", workspace.All, nil},
	} {
		items, err := workspace.AgentsMD(filepath.Join(dir, tt.folder), tt.which)
		if diff := cmp.Diff(tt.want, paths(items)); err != nil || diff != "" {
			t.Errorf("AgentsMD(%s, %s): %v (-want +got):\n%s", tt.folder, tt.which, err, diff)
		}
	}
	items, err := workspace.AgentsMD(filepath.Join(dir, "repo"), workspace.Nearest)
	if err != nil || items[0].Kind != content.Context || !strings.HasSuffix(items[0].Text(), "file AGENTS.md:\n\nBe kind.") {
		t.Errorf("AgentsMD = %+v, %v; want the file's text as a Context item", items, err)
	}
}

func TestAnUnreadableAgentsMDIsAnError(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"\xff\xfe":                         "not UTF-8 text",
		strings.Repeat("long ", 256<<10/4): "bytes, more than",
	} {
		dir := folder(t, map[string]string{"AGENTS.md": text})
		if _, err := workspace.AgentsMD(dir, workspace.Nearest); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("AgentsMD of %.10q = %v, want %q", text, err, want)
		}
	}
	outside := folder(t, map[string]string{"secret": "s"})
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "AGENTS.md")); err != nil {
		t.Fatal(err)
	}
	if items, err := workspace.AgentsMD(dir, workspace.Nearest); err == nil {
		t.Errorf("a link out of the folder was followed: %+v", items)
	}
	if _, err := workspace.AgentsMD(dir, "some"); err == nil || !strings.Contains(err.Error(), "use nearest or all") {
		t.Errorf("AgentsMD(some) = %v", err)
	}
}

const spec = `# Payments

Intro.

## Purpose
Money moves once.

### Details
Kept.

## History
Long ago.

## Error Cases
` + "```\n## not a heading\n```" + `
None.
`

func TestSpecsAreRecalledByGoal(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"specs/payments.md":     spec,
		"specs/login.md":        "# Users and their login\n\nNo binding sections.\n",
		"specs/deep/refunds.md": "# Refunding payments\n",
		"specs/other.md":        "# Colours\n",
		"specs/payments.txt":    "not Markdown",
		"specs/no-payments.md":  "A text without a heading.\n",
		"specs/broken.md":       "\xff payments",
		"docs/payment-terms.md": "# Terms\n",
		"docs/payment-old.md":   "# Old\n",
	})
	s := workspace.Specs{Root: dir, Folders: []string{"specs", "docs", "specs/deep", "none"}}
	for goal, want := range map[string][]string{
		"Refund a payment":  {"specs/deep/refunds.md", "docs/payment-old.md", "docs/payment-terms.md"},
		"Fix the login":     {"specs/login.md"},
		"Bake bread":        nil,
		"Mend the payments": {"docs/payment-old.md", "docs/payment-terms.md", "specs/deep/refunds.md"},
	} {
		items, err := s.Recall(t.Context(), goal)
		if diff := cmp.Diff(want, paths(items)); err != nil || diff != "" {
			t.Errorf("Recall(%s): %v (-want +got):\n%s", goal, err, diff)
		}
	}
}

func TestOnlyBindingSectionsOfASpecAreRecalled(t *testing.T) {
	t.Parallel()
	s := workspace.Specs{Root: folder(t, map[string]string{"payments.md": spec}), Folders: []string{"."}}
	items, err := s.Recall(t.Context(), "payments")
	if err != nil || len(items) != 1 {
		t.Fatalf("Recall = %v, %v; want one", items, err)
	}
	_, got, _ := strings.Cut(items[0].Text(), ":\n\n")
	want := "## Purpose\nMoney moves once.\n\n### Details\nKept.\n\n## Error Cases\n```\n## not a heading\n```\nNone.\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
}

func TestSpecsOutsideTheRootAreNotRead(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"..", "/etc", "a/../.."} {
		s := workspace.Specs{Root: t.TempDir(), Folders: []string{folder}}
		if items, err := s.Recall(t.Context(), "anything"); err == nil && items != nil {
			t.Errorf("Recall in %s = %v", folder, items)
		}
	}
	if _, err := (workspace.Specs{Root: filepath.Join(t.TempDir(), "none")}).Recall(t.Context(), "x"); err == nil {
		t.Error("a missing root is not an error")
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	s := workspace.Specs{Root: folder(t, map[string]string{"payments.md": spec}), Folders: []string{"."}}
	if items, err := s.Recall(ctx, "payments"); !errors.Is(err, enough) {
		t.Errorf("Recall after a cancel = %v, %v", items, err)
	}
}
