package tests

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// fenced is code between lines of backticks, and spanned code within a line.
	fenced  = regexp.MustCompile("(?ms)^```.*?^```")
	spanned = regexp.MustCompile("`[^`\n]*`")
	// link is what follows a link's text, reference the definition of one.
	link      = regexp.MustCompile(`\]\(\s*<?([^\s)>]+)`)
	reference = regexp.MustCompile(`(?m)^\[[^\]]+\]:\s*(\S+)`)
	heading   = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	// unnamed is what a heading's anchor leaves out.
	unnamed = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinksLeadSomewhere follows the relative links of all pages.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	found := 0
	for _, name := range pages(t) {
		for _, target := range links(prose(t, name)) {
			found++
			file, anchor, _ := strings.Cut(target, "#")
			at := name
			if file != "" {
				at = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(path.Join("..", at)); err != nil || strings.HasPrefix(at, "../") {
				t.Errorf("%s: there is no %s", name, target)
			} else if anchor != "" && !slices.Contains(anchors(t, at), anchor) {
				t.Errorf("%s: %s has no heading %q", name, at, anchor)
			}
		}
	}
	if found == 0 {
		t.Error("no page has a link")
	}
}

// TestReadmeLeadsToEveryPage keeps pages reachable.
func TestReadmeLeadsToEveryPage(t *testing.T) {
	t.Parallel()
	said := links(prose(t, "README.md"))
	for _, name := range pages(t) {
		if dir := path.Dir(name); (dir == "." || dir == "docs") && name != "README.md" && !slices.Contains(said, name) {
			t.Errorf("README.md has no link to %s", name)
		}
	}
}

// pages lists the module's Markdown files, without testdata and dependencies.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, d fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case errors.Is(err, fs.ErrNotExist): // a parallel test removed it
			return nil
		case err != nil:
			return err
		case d.IsDir() && name != "." && (base[0] == '.' || base == "testdata" || base == "node_modules"):
			return fs.SkipDir
		case !d.IsDir() && path.Ext(name) == ".md":
			all = append(all, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// prose returns a page without code.
func prose(t *testing.T, name string) string {
	t.Helper()
	return spanned.ReplaceAllString(text(t, name), "`code`")
}

// text returns a page without code blocks.
func text(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile(path.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	return fenced.ReplaceAllString(string(page), "")
}

// links lists the targets of a text's links within the repository.
func links(text string) []string {
	var all []string
	for _, re := range []*regexp.Regexp{link, reference} {
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			if target := m[1]; !strings.Contains(target, "://") && !strings.HasPrefix(target, "mailto:") {
				all = append(all, target)
			}
		}
	}
	return all
}

// anchors lists the anchors of a page's headings.
func anchors(t *testing.T, name string) []string {
	t.Helper()
	var all []string
	for _, m := range heading.FindAllStringSubmatch(text(t, name), -1) {
		title := strings.ToLower(unnamed.ReplaceAllString(m[1], ""))
		all = append(all, strings.ReplaceAll(strings.TrimSpace(title), " ", "-"))
	}
	return all
}
