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

// gitLine reads a line of git's header.
func (p *patchParser) gitLine(f *filePatch, line string) error {
	var value string
	is := func(key string) (ok bool) {
		value, ok = strings.CutPrefix(line, key+" ")
		return ok
	}
	switch {
	case is("rename from"):
		f.name = unquoted(value)
	case is("rename to"):
		f.to = unquoted(value)
	case is("copy from"):
		return p.fail(p.next+1, "a patch cannot copy a file: write the copy")
	case is("deleted file mode"):
		f.action = remove
	case is("new mode"), is("new file mode"):
		if f.mode = strings.TrimSpace(value); f.mode != ordinary && f.mode != executable {
			return p.fail(p.next+1, "mode %q: a patch can only set the modes %s and %s", f.mode, ordinary, executable)
		}
		if is("new file mode") {
			f.action = create
		}
	}
	return nil
}

// gitName returns the name in both halves of a "diff --git" line, or "" if they differ.
func gitName(names string) string {
	var before, after string
	if quoted, err := strconv.QuotedPrefix(names); err == nil {
		before, after = unquoted(quoted), unquoted(names[len(quoted):])
	} else if half := len(names) / 2; len(names)%2 == 1 && names[half] == ' ' {
		before, after = names[:half], names[half+1:]
	}
	if before, after = unprefixed(before, after); before != after {
		return ""
	}
	return before
}

// unprefixed returns the old and the new name without git's a/ and b/.
func unprefixed(before, after string) (string, string) {
	a, okA := strings.CutPrefix(before, "a/")
	b, okB := strings.CutPrefix(after, "b/")
	if (okA || before == devNull) && (okB || after == devNull) {
		return a, b
	}
	return before, after
}

// unquoted returns a file name. Git quotes unusual ones.
func unquoted(name string) string {
	name = strings.TrimSpace(name)
	if plain, err := strconv.Unquote(name); err == nil && strings.HasPrefix(name, `"`) {
		return plain
	}
	return name
}
