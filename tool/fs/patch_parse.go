package fs

import (
	"fmt"
	"slices"
	"strings"
)

// Markers of a patch.
const (
	beginPatch = "*** Begin Patch"
	endPatch   = "*** End Patch"
	addFile    = "*** Add File:"
	updateFile = "*** Update File:"
	deleteFile = "*** Delete File:"
	moveTo     = "*** Move to:"
	endOfFile  = "*** End of File"
)

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
	line   int // of the patch, where it begins
}

// hunk is a change at one place of a file.
type hunk struct {
	line  int      // of the patch
	seek  []string // lines of the file that precede it, in order
	atEnd bool     // it is at the end of the file
	lines []patchLine
}

// patchLine is a line of a hunk; op is ' ', '-' or '+'.
type patchLine struct {
	op   byte
	text string
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

// patchParser reads a patch line by line.
type patchParser struct {
	lines []string
	next  int
}

// parsePatch parses a patch. Errors name its lines, counted from 1. Text before the first
// marker is ignored.
func parsePatch(text string) ([]filePatch, error) {
	p := &patchParser{lines: strings.Split(strings.TrimSuffix(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")}
	p.next = slices.IndexFunc(p.lines, func(line string) bool { return strings.TrimSpace(line) == beginPatch }) + 1
	if p.next == 0 {
		return nil, fmt.Errorf("no line of the patch is %s: put %s, %s or %s with the file's name between it and %s",
			beginPatch, updateFile, addFile, deleteFile, endPatch)
	}
	var files []filePatch
	for p.more() {
		line := strings.TrimSpace(p.peek())
		p.next++
		switch line {
		case endPatch:
			if len(files) == 0 {
				return nil, p.fail(p.next, "there is no file before %s", endPatch)
			}
			return files, nil
		case "":
			continue
		}
		f, err := p.file(line)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return nil, p.fail(len(p.lines), "the patch does not end: %s is missing", endPatch)
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

// file parses the part of a patch that begins with the line.
func (p *patchParser) file(line string) (filePatch, error) {
	f := filePatch{line: p.next}
	is := func(marker string) bool {
		name, ok := strings.CutPrefix(line, marker)
		f.name = strings.TrimSpace(name)
		return ok
	}
	var err error
	switch {
	case is(addFile):
		f.action = create
		err = p.added(&f)
	case is(deleteFile):
		f.action = remove
	case is(updateFile):
		err = p.updated(&f)
	default:
		return f, p.fail(f.line, "%q: want %s, %s, %s or %s", line, addFile, updateFile, deleteFile, endPatch)
	}
	if err == nil && f.name == "" {
		err = p.fail(f.line, "no file name")
	}
	return f, err
}

func (p *patchParser) added(f *filePatch) error {
	h := hunk{line: p.next + 1}
	for ; p.more() && !strings.HasPrefix(p.peek(), "***"); p.next++ {
		text, ok := strings.CutPrefix(p.peek(), "+")
		if !ok {
			return p.fail(p.next+1, "the lines of a new file begin with +")
		}
		h.lines = append(h.lines, patchLine{'+', text})
	}
	f.hunks = []hunk{h}
	return nil
}

// updated parses the hunks of a file. The first needs no header.
func (p *patchParser) updated(f *filePatch) error {
	if to, ok := strings.CutPrefix(p.peek(), moveTo); ok {
		f.to = strings.TrimSpace(to)
		p.next++
	}
	for p.more() && !p.endsFile() {
		h, err := p.hunk()
		if err != nil {
			return err
		}
		f.hunks = append(f.hunks, h)
	}
	if len(f.hunks) == 0 && f.to == "" {
		return p.fail(f.line, "%s has no hunk", show(f.name))
	}
	return nil
}

func (p *patchParser) endsFile() bool {
	return strings.HasPrefix(p.peek(), "*** ") && strings.TrimSpace(p.peek()) != endOfFile
}

func (p *patchParser) hunk() (hunk, error) {
	h := hunk{line: p.next + 1}
	for ; strings.HasPrefix(p.peek(), "@@"); p.next++ {
		if seek := strings.TrimSpace(strings.TrimPrefix(p.peek(), "@@")); seek != "" {
			h.seek = append(h.seek, seek)
		}
	}
	changes := false
	for ; p.more() && !h.atEnd && !p.endsFile() && !strings.HasPrefix(p.peek(), "@@"); p.next++ {
		line := p.peek()
		if h.atEnd = strings.TrimSpace(line) == endOfFile; h.atEnd {
			continue
		}
		op := (line + " ")[0] // an empty line lacks its space
		if !strings.ContainsRune(" +-", rune(op)) {
			return h, p.fail(p.next+1, "begins with %q: lines of a hunk begin with a space, + or -", line[:1])
		}
		changes = changes || op != ' '
		h.lines = append(h.lines, patchLine{op, line[min(1, len(line)):]})
	}
	if !changes {
		return h, p.fail(h.line, "the hunk changes nothing: no line begins with + or -")
	}
	return h, nil
}

// Change is what a patch does to a file, as far as the patch itself shows.
type Change struct {
	Path    string
	Created bool
	Edits   []Edit // none: the file is deleted, or only moved
}

// Edit is a part of a file before and after.
type Edit struct{ Old, New string }

// Changes parses a patch for people to look at.
func Changes(patch string) ([]Change, error) {
	files, err := parsePatch(patch)
	if err != nil {
		return nil, err
	}
	var all []Change
	for _, f := range files {
		c := Change{Path: f.name, Created: f.action == create}
		for _, h := range f.hunks {
			c.Edits = append(c.Edits, Edit{Old: h.text('+'), New: h.text('-')})
		}
		all = append(all, c)
	}
	return all, nil
}

// text returns the lines of the hunk without those of an operation.
func (h *hunk) text(without byte) string {
	var b strings.Builder
	for _, l := range h.lines {
		if l.op != without {
			b.WriteString(l.text + "\n")
		}
	}
	return b.String()
}
