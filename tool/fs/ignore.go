package fs

import (
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

const (
	ignoreFile    = ".gitignore"
	plainIgnore   = ".ignore" // the same for whoever searches, whatever git thinks
	maxIgnoreFile = 1 << 20
)

// ignores knows what the .gitignore and .ignore files of a tree leave out: in each
// directory, and for what lies below it, the last pattern that fits decides, and a
// directory further down has the word before one further up. What .ignore files say,
// of any directory, counts before what .gitignore files say, and a git repository
// within the tree is judged by its own .gitignore files alone. It is made for one walk
// and not safe for concurrent use.
type ignores struct {
	dir   *dir
	known map[string]ignoreRules // by directory
}

// ignoreRules are those of one directory.
type ignoreRules struct {
	rules      []ignoreRule // in order
	plain      []ignoreRule // of .ignore, in order
	repository bool         // what lies further up has no say
}

// ignoreRule is a line of a .gitignore file.
type ignoreRule struct {
	pattern []string // split at slashes; one element: the last name of a path, if it is not anchored
	rooted  bool     // the pattern counts from its file's directory
	dirs    bool     // only directories are meant
	keep    bool     // what fits is not left out after all
}

func (d *dir) ignores() *ignores { return &ignores{dir: d, known: make(map[string]ignoreRules)} }

// match reports whether an entry is left out. Its directories are not looked at:
// whoever walks down does not enter those that are left out, and who begins within
// one means it.
func (g *ignores) match(name string, isDir bool) bool {
	for at := path.Dir(name); ; at = path.Dir(at) {
		if out, ok := decide(g.rules(at).plain, at, name, isDir); ok {
			return out
		}
		if at == "." {
			break
		}
	}
	for at := path.Dir(name); ; at = path.Dir(at) {
		r := g.rules(at)
		if out, ok := decide(r.rules, at, name, isDir); ok {
			return out
		}
		if r.repository || at == "." {
			return false
		}
	}
}

// decide reports what the rules of the directory at say of an entry below it, if they
// say anything.
func decide(rules []ignoreRule, at, name string, isDir bool) (out, ok bool) {
	below := name
	if at != "." {
		below = strings.TrimPrefix(name, at+"/")
	}
	for _, rule := range slices.Backward(rules) {
		if rule.match(below, isDir) {
			return !rule.keep, true
		}
	}
	return false, false
}

func (r ignoreRule) match(below string, isDir bool) bool {
	switch {
	case r.dirs && !isDir:
		return false
	case r.rooted:
		return matchPath(r.pattern, strings.Split(below, "/"))
	}
	return matchName(r.pattern[0], path.Base(below))
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
			r.rules = g.read(path.Join(at, ".git/info/exclude"))
		}
	}
	r.rules = append(r.rules, g.read(path.Join(at, ignoreFile))...)
	r.plain = g.read(path.Join(at, plainIgnore))
	g.known[at] = r
	return r
}

func (g *ignores) read(name string) []ignoreRule {
	info, err := g.dir.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil // git does not follow symbolic links here either
	}
	f, err := g.dir.Open(name)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // nothing was written
	raw, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	if err != nil {
		return nil
	}
	return parseIgnore(string(raw))
}

func parseIgnore(text string) []ignoreRule {
	var rules []ignoreRule
	for line := range strings.Lines(strings.TrimPrefix(text, "\uFEFF")) {
		if rule, ok := parseIgnoreLine(strings.TrimRight(line, "\r\n")); ok {
			rules = append(rules, rule)
		}
	}
	return rules
}

// parseIgnoreLine reads a line in git's syntax, most of which is that of path.Match.
func parseIgnoreLine(line string) (r ignoreRule, ok bool) {
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
	r.rooted = strings.Contains(line, "/")
	line = plainClasses(strings.TrimPrefix(line, "/"))
	r.pattern = strings.Split(line, "/")
	for i, name := range r.pattern {
		if len(name) > 2 && strings.Trim(name, "*") == "" {
			r.pattern[i] = "**"
		}
	}
	if r.rooted && r.pattern[len(r.pattern)-1] == "**" {
		r.pattern = append(r.pattern, "*") // what lies in a directory, not the directory itself
	}
	return r, true
}

// walked is what a walk did not visit.
type walked struct {
	unreadable int // directories
	ignored    int // files and directories that ignore files leave out
}

// entries wraps visit so that what is left out is counted instead of visited.
func (g *ignores) entries(w *walked, visit visitFunc) visitFunc {
	return func(name, below string, e fs.DirEntry) error {
		if !g.match(name, e.IsDir()) {
			return visit(name, below, e)
		}
		w.ignored++
		if e.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
}
