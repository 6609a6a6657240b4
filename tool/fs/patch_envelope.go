package fs

import "strings"

// Markers of the enveloped form of a patch.
const (
	beginPatch = "*** Begin Patch"
	endPatch   = "*** End Patch"
	addFile    = "*** Add File:"
	updateFile = "*** Update File:"
	deleteFile = "*** Delete File:"
	moveTo     = "*** Move to:"
	endOfFile  = "*** End of File"
)

// enveloped parses what follows *** Begin Patch.
func (p *patchParser) enveloped() ([]filePatch, error) {
	var files []filePatch
	for p.more() {
		line := strings.TrimSpace(p.peek())
		p.next++
		f := filePatch{line: p.next}
		var name string
		is := func(marker string) (ok bool) {
			name, ok = strings.CutPrefix(line, marker)
			f.name = strings.TrimSpace(name)
			return ok
		}
		var err error
		switch {
		case line == endPatch:
			return files, nil
		case line == "":
			continue
		case is(addFile):
			f.action = create
			err = p.added(&f)
		case is(deleteFile):
			f.action = remove
		case is(updateFile):
			err = p.updated(&f)
		default:
			return nil, p.fail(f.line, "%q: want %s, %s, %s or %s", line, addFile, updateFile, deleteFile, endPatch)
		}
		if err == nil && f.name == "" {
			err = p.fail(f.line, "no file name")
		}
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return nil, p.fail(len(p.lines), "the patch does not end: %s is missing", endPatch)
}

// added parses the lines of a new file.
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
		h := hunk{line: p.next + 1}
		for ; strings.HasPrefix(p.peek(), "@@"); p.next++ {
			if seek := strings.TrimSpace(strings.TrimPrefix(p.peek(), "@@")); seek != "" {
				h.seek = append(h.seek, seek)
			}
		}
		for ; p.more() && !h.atEnd && !p.endsFile() && !strings.HasPrefix(p.peek(), "@@"); p.next++ {
			if h.atEnd = strings.TrimSpace(p.peek()) == endOfFile; h.atEnd {
				continue
			}
			if _, err := h.take(p.next+1, p.peek()); err != nil {
				return err
			}
		}
		if err := h.check(); err != nil {
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
