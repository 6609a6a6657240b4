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

// patchParser reads a patch line by line.
type patchParser struct {
	lines []string
	next  int
}

// parsePatch parses a patch in either form. Errors name its lines, counted from 1.
func parsePatch(text string) ([]filePatch, error) {
	p := &patchParser{lines: strings.Split(strings.TrimSuffix(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")}
	files, err := p.files()
	if err == nil && len(files) == 0 {
		err = errors.New("the patch names no file: use a unified diff with lines --- and +++, or the form that begins with *** Begin Patch")
	}
	return files, err
}

// files parses the form that the first marker belongs to: a patch of either form may
// contain the other.
func (p *patchParser) files() ([]filePatch, error) {
	for ; p.more() && !p.isHeader(); p.next++ {
		if strings.TrimSpace(p.peek()) == beginPatch {
			p.next++
			return p.enveloped()
		}
	}
	p.next = 0
	return p.unified()
}

func (p *patchParser) more() bool { return p.next < len(p.lines) }

// peek returns the next line, or "" at the end.
func (p *patchParser) peek() string {
	if !p.more() {
		return ""
	}
	return p.lines[p.next]
}

func (p *patchParser) fail(line int, format string, args ...any) error {
	return fmt.Errorf("line %d of the patch: "+format, append([]any{line}, args...)...)
}

// unified parses the output of diff -u and git diff. It skips other text between
// files.
func (p *patchParser) unified() ([]filePatch, error) {
	var files []filePatch
	var head *filePatch // the last file, if only lines of git's header are known so far
	for p.more() {
		line, n, named := p.peek(), p.next+1, p.isHeader()
		isDiff := strings.HasPrefix(line, "diff ")
		if isDiff || named && head == nil || strings.HasPrefix(line, "rename from ") && (head == nil || head.to != "") {
			files = append(files, filePatch{line: n})
			head = &files[len(files)-1]
		}
		var err error
		switch {
		case named:
			err, head = p.unifiedFile(head), nil
			p.next-- // to the last line of its hunks
		case strings.HasPrefix(line, "@@"):
			err = p.fail(n, "a hunk without a file: lines --- and +++ with the file name must come first")
		case strings.HasPrefix(line, "GIT binary patch"), strings.HasPrefix(line, "Binary files "):
			err = p.fail(n, "binary files cannot be patched")
		case isDiff:
			head.name = gitName(strings.TrimPrefix(line, "diff --git "))
		case head != nil:
			err = p.gitLine(head, line)
		}
		if err != nil {
			return nil, err
		}
		p.next++
	}
	files = slices.DeleteFunc(files, func(f filePatch) bool {
		return f.action == update && f.mode == "" && f.to == "" && len(f.hunks) == 0
	})
	for i, f := range files {
		switch {
		case f.name == "":
			return nil, p.fail(f.line, "no file name")
		case f.action == remove && len(f.hunks) == 0:
			files[i].hunks = []hunk{{line: f.line}} // removes no line, so the file must be empty
		}
	}
	return files, nil
}

// isHeader reports whether the lines --- and +++ of a file follow.
func (p *patchParser) isHeader() bool {
	return p.next+1 < len(p.lines) && strings.HasPrefix(p.peek(), "--- ") && strings.HasPrefix(p.lines[p.next+1], "+++ ")
}

const devNull = "/dev/null"

// unifiedFile parses the lines --- and +++ and the hunks of a file.
func (p *patchParser) unifiedFile(f *filePatch) error {
	before, _, _ := strings.Cut(strings.TrimPrefix(p.lines[p.next], "--- "), "\t") // a timestamp may follow
	after, _, _ := strings.Cut(strings.TrimPrefix(p.lines[p.next+1], "+++ "), "\t")
	before, after = unprefixed(unquoted(before), unquoted(after))
	p.next += 2
	switch {
	case before == devNull && after == devNull:
		return p.fail(f.line, "no file name")
	case f.to != "": // git's header has the names
	case before == devNull:
		f.action, f.name = create, after
	case after == devNull:
		f.action, f.name = remove, before
	case after != before:
		f.name, f.to = before, after
	default:
		f.name = before
	}
	for p.more() && strings.HasPrefix(p.peek(), "@@") {
		h, err := p.unifiedHunk()
		if err != nil {
			return err
		}
		f.hunks = append(f.hunks, h)
	}
	if len(f.hunks) == 0 && f.to == "" {
		return p.fail(f.line, "%s has no hunk: a line @@ must follow", show(f.name))
	}
	if f.action == create && slices.ContainsFunc(f.hunks, func(h hunk) bool { return len(h.old()) > 0 }) {
		return p.fail(f.line, "%s is created, but not all of its lines begin with +", show(f.name))
	}
	return nil
}

// unifiedHunk parses a hunk. The counts in its header are only hints: models count
// badly, and the lines are unambiguous except at the end of the hunk.
func (p *patchParser) unifiedHunk() (hunk, error) {
	h := hunk{line: p.next + 1}
	olds, news, err := h.head(p.peek())
	if err != nil {
		return h, err
	}
	blank := 0 // empty lines at the end, without the space of a context line
	for p.next++; p.more(); p.next++ {
		line := p.peek()
		if strings.HasPrefix(line, "@@") || strings.HasPrefix(line, "diff ") || p.endsHunk(olds, news) {
			break
		}
		done, err := h.take(p.next+1, line)
		if err != nil {
			return h, err
		}
		if done {
			break
		}
		if blank++; line != "" {
			blank = 0
		}
		switch (line + " ")[0] {
		case ' ':
			olds, news = olds-1, news-1
		case '-':
			olds--
		case '+':
			news--
		}
	}
	for ; blank > 0 && olds < 0; blank-- {
		h.lines, olds = h.lines[:len(h.lines)-1], olds+1
	}
	return h, h.check()
}

// head parses the line @@ and returns how many old and new lines it promises; -1: it
// does not say.
func (h *hunk) head(line string) (olds, news int, err error) {
	if strings.Trim(line, "@ ") == "" {
		return -1, -1, nil
	}
	oldSpan, rest, _ := strings.Cut(strings.TrimPrefix(line, "@@ -"), " +")
	newSpan, _, closed := strings.Cut(rest, " @@")
	var err1, err2 error
	h.at, olds, err1 = span(oldSpan)
	_, news, err2 = span(newSpan)
	if !closed || err1 != nil || err2 != nil {
		return 0, 0, fmt.Errorf("line %d of the patch: %q is not a hunk header: write it like @@ -10,3 +10,4 @@", h.line, line)
	}
	if olds == 0 {
		h.at++ // without old lines, the number is that of the line before
	}
	return olds, news, nil
}

// span parses 10,3 or 10.
func span(text string) (at, lines int, err error) {
	first, count, counted := strings.Cut(text, ",")
	if !counted {
		count = "1"
	}
	if at, err = strconv.Atoi(first); err == nil {
		lines, err = strconv.Atoi(count)
	}
	return at, lines, err //nolint:wrapcheck // head shows the line
}

// endsHunk reports whether a hunk ends here: another file begins, as opposed to a
// removed line that begins with -- and an added one that begins with ++, or an email
// signature follows.
func (p *patchParser) endsHunk(olds, news int) bool {
	switch {
	case p.peek() == "-- " && olds == 0 && news == 0:
		return true
	case !p.isHeader() || olds == 1 && news == 1:
		return false
	case olds <= 0 && news <= 0:
		return true
	}
	return p.next+2 < len(p.lines) && strings.HasPrefix(p.lines[p.next+2], "@@")
}

// take adds a line of the patch. done reports that the line is not part of the hunk.
func (h *hunk) take(n int, line string) (done bool, err error) {
	switch op := (line + " ")[0]; op {
	case ' ', '+', '-':
		h.lines = append(h.lines, patchLine{op, line[min(1, len(line)):]}) // an empty line lacks its space
	case '\\':
		if len(h.lines) == 0 {
			return false, fmt.Errorf("line %d of the patch: no line before it can lack a newline", n)
		}
		before := h.lines[len(h.lines)-1].op
		h.oldEnd = h.oldEnd || before != '+'
		h.newEnd = h.newEnd || before != '-'
	case 'G', 'B', 'i', 'n', 's', 'r', 'I', 'o', '*':
		return true, nil // git writes these between files
	default:
		return false, fmt.Errorf("line %d of the patch: begins with %q: lines of a hunk begin with a space, + or -", n, line[:1])
	}
	return false, nil
}

// check checks a complete hunk.
func (h *hunk) check() error {
	if !slices.ContainsFunc(h.lines, func(l patchLine) bool { return l.op != ' ' }) {
		return fmt.Errorf("line %d of the patch: the hunk changes nothing: no line begins with + or -", h.line)
	}
	return nil
}

// old returns the lines that the hunk has to match.
func (h *hunk) old() []string {
	var out []string
	for _, l := range h.lines {
		if l.op != '+' {
			out = append(out, l.text)
		}
	}
	return out
}
