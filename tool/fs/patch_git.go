package fs

import (
	"strconv"
	"strings"
)

// File modes as git writes them.
const (
	ordinary   = "100644"
	executable = "100755"
)

// gitHead is git's extended header for a file, before its hunks if it has any.
type gitHead struct {
	begun    bool   // it has a "diff --git" line; without one it can only be a rename
	line     int    // of the patch; 0: there is no header
	name     string // in the "diff --git" line; empty: its halves differ
	from, to string
	action   action
	mode     string // the new mode; empty: not given
}

// read parses a line if it belongs to the header.
func (g *gitHead) read(p *patchParser) error {
	line, n := p.lines[p.next], p.next+1
	for _, key := range []string{
		"rename from ", "rename to ", "new file mode ", "deleted file mode ", "new mode ", "copy from ",
	} {
		value, ok := strings.CutPrefix(line, key)
		if !ok || !g.begun && !strings.HasPrefix(key, "rename ") {
			continue
		}
		if g.line == 0 {
			g.line = n
		}
		switch key {
		case "rename from ":
			g.from, g.line = unquoted(value), n
		case "rename to ":
			g.to = unquoted(value)
		case "deleted file mode ":
			g.action = remove
		case "copy from ":
			return p.fail(n, "a patch cannot copy a file: write the copy")
		default:
			if g.mode = strings.TrimSpace(value); g.mode != ordinary && g.mode != executable {
				return p.fail(n, "mode %q: a patch can only set the modes %s and %s", g.mode, ordinary, executable)
			}
			if key == "new file mode " {
				g.action = create
			}
		}
		return nil
	}
	return nil
}

// beginGit starts a header at a "diff --git" line.
func beginGit(line string, n int) gitHead {
	names := strings.TrimPrefix(line, "diff --git ")
	g := gitHead{begun: true, line: n}
	if quoted, err := strconv.QuotedPrefix(names); err == nil {
		before, after := unquoted(quoted), unquoted(strings.TrimSpace(names[len(quoted):]))
		g.name = common(before, after)
		return g
	}
	if half := len(names) / 2; len(names)%2 == 1 && names[half] == ' ' {
		g.name = common(names[:half], names[half+1:])
	}
	return g
}

// common returns the name in both halves of a "diff --git" line, or "".
func common(before, after string) string {
	a, okA := strings.CutPrefix(before, "a/")
	b, okB := strings.CutPrefix(after, "b/")
	if okA && okB {
		before, after = a, b
	}
	if before != after {
		return ""
	}
	return before
}

// alone returns what the header does to a file without hunks. ok is false if that is
// nothing.
func (g gitHead) alone(p *patchParser) (f filePatch, ok bool, err error) {
	f = filePatch{action: g.action, name: g.name, mode: g.mode, line: g.line}
	switch {
	case g.to != "" && g.from != "":
		f.name, f.to = g.from, g.to
		return f, true, nil
	case g.action == update && g.mode == "":
		return f, false, nil
	case g.name == "":
		return f, false, p.fail(g.line, "no file name")
	case g.action == remove:
		f.hunks = []hunk{{line: g.line}} // removes no line, so the file must be empty
	}
	return f, true, nil
}

// onto applies the header to a file with hunks.
func (g gitHead) onto(f filePatch) filePatch {
	f.mode = g.mode
	if g.to != "" && g.from != "" {
		f.action, f.name, f.to, f.line = update, g.from, g.to, g.line
	}
	return f
}

// unquoted returns a file name. Git quotes unusual ones.
func unquoted(name string) string {
	name = strings.TrimSpace(name)
	if plain, err := strconv.Unquote(name); err == nil && strings.HasPrefix(name, `"`) {
		return plain
	}
	return name
}
