package fs

import (
	"io"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/turnlog/turnlog/internal/textfile"
)

const maxIgnoreFile = 1 << 20

// ignores reads the .gitignore files of a tree. For an entry, the last matching pattern
// of the nearest directory decides. Only its own files apply to a git repository within
// the tree. An ignores serves one walk and is not safe for concurrent use.
type ignores struct {
	dir   *dir
	known map[string]ignoreRules // by directory
}

type ignoreRules struct {
	all        []ignoreRule // from .git/info/exclude and .gitignore
	repository bool         // the files further up do not apply
}

type ignoreRule struct {
	pattern string
	base    bool // the pattern applies to the last name of a path
	dirs    bool // only directories match
	keep    bool // what matches is not ignored
}

func (d *dir) ignores() *ignores { return &ignores{dir: d, known: make(map[string]ignoreRules)} }

// match reports whether an entry is ignored. It does not check the directories above it: a walk does
// not enter ignored directories, unless it was asked to start in one.
func (g *ignores) match(name string, isDir bool) bool {
	for at := path.Dir(name); ; at = path.Dir(at) {
		r := g.rules(at)
		if out, ok := decide(r.all, at, name, isDir); ok {
			return out
		}
		if r.repository || at == "." {
			return false
		}
	}
}

// decide applies the rules of the directory at to an entry below it. ok is false if
// none matches.
func decide(rules []ignoreRule, at, name string, isDir bool) (ignored, ok bool) {
	below := name
	if at != "." {
		below = strings.TrimPrefix(name, at+"/")
	}
	for _, r := range slices.Backward(rules) {
		subject := below
		if r.base {
			subject = path.Base(below)
		}
		if (isDir || !r.dirs) && doublestar.MatchUnvalidated(r.pattern, subject) {
			return !r.keep, true
		}
	}
	return false, false
}

// rules returns the rules of a directory. A file that cannot be read has none.
func (g *ignores) rules(at string) ignoreRules {
	if r, ok := g.known[at]; ok {
		return r
	}
	var r ignoreRules
	if info, err := g.dir.Lstat(path.Join(at, ".git")); err == nil {
		r.repository = true
		if info.IsDir() {
			r.all = g.read(path.Join(at, ".git/info/exclude"))
		}
	}
	r.all = append(r.all, g.read(path.Join(at, ".gitignore"))...)
	g.known[at] = r
	return r
}

func (g *ignores) read(name string) []ignoreRule {
	info, err := g.dir.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil // like git, follow no symbolic link
	}
	f, err := textfile.OpenIn(g.dir.Root.Root, name)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // nothing was written
	raw, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	if err != nil {
		return nil
	}
	var rules []ignoreRule
	for line := range strings.Lines(strings.TrimPrefix(string(raw), "\uFEFF")) {
		if rule, ok := parseIgnore(strings.TrimRight(line, "\r\n")); ok {
			rules = append(rules, rule)
		}
	}
	return rules
}

// parseIgnore reads a line in git's syntax.
func parseIgnore(line string) (r ignoreRule, ok bool) {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if strings.HasPrefix(line, "#") {
		return r, false
	}
	line, r.keep = strings.CutPrefix(line, "!")
	line, r.dirs = strings.CutSuffix(line, "/")
	if line == "" {
		return r, false
	}
	r.base = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if strings.HasSuffix(line, "/**") {
		line += "/*" // the entries of the directory, not the directory itself
	}
	r.pattern = translate(line)
	return r, doublestar.ValidatePattern(r.pattern)
}

// translate rewrites the syntax that git and doublestar read differently: braces, brackets at the
// start of a class, and named classes.
func translate(pattern string) string {
	return strings.NewReplacer(
		`\\`, `\\`, `\{`, `\{`, `\}`, `\}`, `\[`, `\[`, `{`, `\{`, `}`, `\}`,
		`[[]`, `[\[]`, `[]`, `[\]`, `[!]`, `[!\]`, `[^]`, `[^\]`,
		"[:alnum:]", "a-zA-Z0-9", "[:alpha:]", "a-zA-Z", "[:blank:]", " \t", "[:cntrl:]", "\x00-\x1f\x7f",
		"[:digit:]", "0-9", "[:graph:]", "!-~", "[:lower:]", "a-z", "[:print:]", " -~", "[:punct:]", "!-/:-@\\[-`{-~",
		"[:space:]", " \t-\r", "[:upper:]", "A-Z", "[:xdigit:]", "0-9a-fA-F",
	).Replace(pattern)
}
