package fs

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// action is what a patch does to a file.
type action int

const (
	update action = iota
	create
	remove
)

// filePatch is the part of a patch about one file.
type filePatch struct {
	action action
	name   string
	to     string // the new name; empty: unchanged
	hunks  []hunk
	mode   string // as git writes it; empty: unchanged
	line   int    // of the patch, where it begins
}

// hunk is a change at one place of a file.
type hunk struct {
	line   int      // of the patch
	at     int      // the line of the file where it begins, according to the patch; 0: not given
	seek   []string // lines that precede it, in order
	atEnd  bool     // it is at the end of the file
	lines  []patchLine
	oldEnd bool // the old text does not end with a newline
	newEnd bool // nor does the new text
}

// patchLine is a line of a hunk; op is ' ', '-' or '+'.
type patchLine struct {
	op   byte
	text string
}

// parsePatch parses a patch in either form. Errors name its lines, counted from 1.
func parsePatch(text string) ([]filePatch, error) {
	p := &patchParser{lines: strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")}
	if n := len(p.lines); p.lines[n-1] == "" {
		p.lines = p.lines[:n-1]
	}
	files, err := p.form()()
	if err == nil && len(files) == 0 {
		err = errors.New("the patch names no file: use a unified diff with lines --- and +++, or the form that begins with *** Begin Patch")
	}
	return files, err
}

type patchParser struct {
	lines []string
	next  int
}

// form returns the parser for the patch: the first marker decides, because a patch of
// either form may contain the other.
func (p *patchParser) form() func() ([]filePatch, error) {
	for i, line := range p.lines {
		if strings.TrimSpace(line) == beginPatch {
			return p.enveloped
		}
		if (&patchParser{lines: p.lines, next: i}).isHeader() {
			break
		}
	}
	return p.unified
}

func (p *patchParser) more() bool { return p.next < len(p.lines) }

func (p *patchParser) fail(line int, format string, args ...any) error {
	return fmt.Errorf("line %d of the patch: "+format, append([]any{line}, args...)...)
}

// unified parses the output of diff -u and git diff. It skips other text between
// files.
func (p *patchParser) unified() ([]filePatch, error) {
	var files []filePatch
	var head gitHead
	flush := func() error {
		f, ok, err := head.alone(p)
		if ok {
			files = append(files, f)
		}
		head = gitHead{}
		return err
	}
	for p.more() {
		line, n := p.lines[p.next], p.next+1
		switch {
		case p.isHeader():
			f, err := p.unifiedFile()
			if err != nil {
				return nil, err
			}
			files, head = append(files, head.onto(f)), gitHead{}
			continue
		case strings.HasPrefix(line, "@@"):
			return nil, p.fail(n, "a hunk without a file: lines --- and +++ with the file name must come first")
		case strings.HasPrefix(line, "GIT binary patch"), strings.HasPrefix(line, "Binary files "):
			return nil, p.fail(n, "binary files cannot be patched")
		case strings.HasPrefix(line, "diff "):
			if err := flush(); err != nil {
				return nil, err
			}
			head = beginGit(line, n)
		default:
			if strings.HasPrefix(line, "rename from ") && head.from != "" {
				if err := flush(); err != nil {
					return nil, err
				}
			}
			if err := head.read(p); err != nil {
				return nil, err
			}
		}
		p.next++
	}
	return files, flush()
}

func (p *patchParser) isHeader() bool {
	return p.next+1 < len(p.lines) && strings.HasPrefix(p.lines[p.next], "--- ") && strings.HasPrefix(p.lines[p.next+1], "+++ ")
}

const devNull = "/dev/null"

func (p *patchParser) unifiedFile() (filePatch, error) {
	f := filePatch{line: p.next + 1}
	before, after := headerName(p.lines[p.next]), headerName(p.lines[p.next+1])
	p.next += 2
	oldName, oldPrefixed := strings.CutPrefix(before, "a/")
	newName, newPrefixed := strings.CutPrefix(after, "b/")
	if (oldPrefixed || before == devNull) && (newPrefixed || after == devNull) {
		before, after = oldName, newName
	}
	switch {
	case before == devNull && after == devNull:
		return f, p.fail(f.line, "no file name")
	case before == devNull:
		f.action, f.name = create, after
	case after == devNull:
		f.action, f.name = remove, before
	default:
		f.name = before
		if after != before {
			f.to = after
		}
	}
	for p.more() && strings.HasPrefix(p.lines[p.next], "@@") {
		h, err := p.unifiedHunk()
		if err != nil {
			return f, err
		}
		f.hunks = append(f.hunks, h)
	}
	if len(f.hunks) == 0 && f.to == "" {
		return f, p.fail(f.line, "%s has no hunk: a line @@ must follow", show(f.name))
	}
	if f.action == create && slices.ContainsFunc(f.hunks, func(h hunk) bool { return len(h.old()) > 0 }) {
		return f, p.fail(f.line, "%s is created, but not all of its lines begin with +", show(f.name))
	}
	return f, nil
}

// headerName returns the name in a line --- or +++, without a timestamp.
func headerName(line string) string {
	name, _, _ := strings.Cut(line[len("--- "):], "\t")
	return unquoted(name)
}

// unifiedHunk parses a hunk. The counts in its header are only hints: models count
// badly, and the lines are unambiguous except at the end of the hunk.
func (p *patchParser) unifiedHunk() (hunk, error) {
	h := hunk{line: p.next + 1}
	olds, news := -1, -1 // lines still expected, if known
	head, ok := strings.CutPrefix(p.lines[p.next], "@@ -")
	if ok {
		oldSpan, rest, _ := strings.Cut(head, " +")
		newSpan, _, closed := strings.Cut(rest, " @@")
		var err1, err2 error
		h.at, olds, err1 = span(oldSpan)
		_, news, err2 = span(newSpan)
		if !closed || err1 != nil || err2 != nil {
			return h, p.fail(h.line, "%q is not a hunk header: write it like @@ -10,3 +10,4 @@", p.lines[p.next])
		}
		if olds == 0 {
			h.at++ // without old lines, the number is that of the line before
		}
	} else if strings.Trim(p.lines[p.next], "@ ") != "" {
		return h, p.fail(h.line, "%q is not a hunk header: write it like @@ -10,3 +10,4 @@", p.lines[p.next])
	}
	p.next++
	blank := 0 // empty lines at the end, without the space of a context line
	for p.more() {
		line := p.lines[p.next]
		if strings.HasPrefix(line, "@@") || strings.HasPrefix(line, "diff ") || p.endsHunk(olds, news) {
			break
		}
		if line == "-- " && olds == 0 && news == 0 {
			break // an email signature follows
		}
		done, err := h.take(p.next+1, line)
		if err != nil {
			return h, err
		}
		if done {
			break
		}
		p.next++
		blank++
		if line != "" {
			blank = 0
		}
		if line == "" || line[0] == ' ' || line[0] == '-' {
			olds--
		}
		if line == "" || line[0] == ' ' || line[0] == '+' {
			news--
		}
	}
	for ; blank > 0 && olds < 0; blank-- {
		h.lines, olds = h.lines[:len(h.lines)-1], olds+1
	}
	return h, h.check()
}

// endsHunk reports whether the next file begins here, as opposed to a removed line that
// begins with -- and an added one that begins with ++.
func (p *patchParser) endsHunk(olds, news int) bool {
	switch {
	case !p.isHeader() || olds == 1 && news == 1:
		return false
	case olds <= 0 && news <= 0:
		return true
	}
	return p.next+2 < len(p.lines) && strings.HasPrefix(p.lines[p.next+2], "@@")
}

// span parses 10,3 or 10.
func span(text string) (at, lines int, err error) {
	first, count, counted := strings.Cut(text, ",")
	if at, err = strconv.Atoi(first); err != nil {
		return 0, 0, err //nolint:wrapcheck // unifiedHunk shows the line
	}
	lines = 1
	if counted {
		lines, err = strconv.Atoi(count)
	}
	return at, lines, err //nolint:wrapcheck // as above
}

// take adds a line of the patch. done reports that the line is not part of the hunk.
func (h *hunk) take(n int, line string) (done bool, err error) {
	if line == "" {
		h.lines = append(h.lines, patchLine{op: ' '})
		return false, nil
	}
	switch line[0] {
	case ' ', '+', '-':
		h.lines = append(h.lines, patchLine{line[0], line[1:]})
		return false, nil
	case '\\':
		if len(h.lines) == 0 {
			return false, fmt.Errorf("line %d of the patch: no line before it can lack a newline", n)
		}
		op := h.lines[len(h.lines)-1].op
		h.oldEnd = h.oldEnd || op != '+'
		h.newEnd = h.newEnd || op != '-'
		return false, nil
	case 'G', 'B', 'i', 'n', 's', 'r', 'I', 'o', '*':
		return true, nil // git writes these between files
	}
	return false, fmt.Errorf("line %d of the patch: begins with %q: lines of a hunk begin with a space, + or -", n, line[:1])
}

// check checks a complete hunk.
func (h *hunk) check() error {
	for _, l := range h.lines {
		if l.op != ' ' {
			return nil
		}
	}
	return fmt.Errorf("line %d of the patch: the hunk changes nothing: no line begins with + or -", h.line)
}
