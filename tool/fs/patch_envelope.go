package fs

import (
	"strings"
)

// Markers of the enveloped form of a patch.
const (
	beginPatch = "*** Begin Patch"
	endPatch   = "*** End Patch"
	addFile    = "*** Add File: "
	updateFile = "*** Update File: "
	deleteFile = "*** Delete File: "
	moveTo     = "*** Move to: "
	endOfFile  = "*** End of File"
)

// enveloped parses the form that begins with *** Begin Patch.
func (p *patchParser) enveloped() ([]filePatch, error) {
	for strings.TrimSpace(p.lines[p.next]) != beginPatch {
		p.next++
	}
	p.next++
	var files []filePatch
	for p.more() {
		line, n := p.lines[p.next], p.next+1
		p.next++
		f := filePatch{line: n}
		var err error
		switch {
		case strings.TrimSpace(line) == endPatch:
			return files, nil
		case strings.TrimSpace(line) == "":
			continue
		case strings.HasPrefix(line, addFile):
			f.action, f.name = create, strings.TrimSpace(line[len(addFile):])
			err = p.added(&f)
		case strings.HasPrefix(line, deleteFile):
			f.action, f.name = remove, strings.TrimSpace(line[len(deleteFile):])
		case strings.HasPrefix(line, updateFile):
			f.name = strings.TrimSpace(line[len(updateFile):])
			err = p.updated(&f)
		default:
			err = p.fail(n, "%q: want %s, %s, %s or %s", line, strings.TrimSpace(addFile), strings.TrimSpace(updateFile), strings.TrimSpace(deleteFile), endPatch)
		}
		if err == nil && f.name == "" {
			err = p.fail(n, "no file name")
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
	for ; p.more() && !strings.HasPrefix(p.lines[p.next], "***"); p.next++ {
		text, ok := strings.CutPrefix(p.lines[p.next], "+")
		if !ok {
			return p.fail(p.next+1, "the lines of a new file begin with +")
		}
		h.lines = append(h.lines, patchLine{'+', text})
	}
	if len(h.lines) > 0 {
		f.hunks = []hunk{h}
	}
	return nil
}

// updated parses the hunks of a file. The first needs no header.
func (p *patchParser) updated(f *filePatch) error {
	if p.more() && strings.HasPrefix(p.lines[p.next], moveTo) {
		f.to = strings.TrimSpace(p.lines[p.next][len(moveTo):])
		p.next++
	}
	for p.more() && !p.endsFile() {
		h := hunk{line: p.next + 1}
		for p.more() && strings.HasPrefix(p.lines[p.next], "@@") {
			if seek := strings.TrimSpace(strings.TrimPrefix(p.lines[p.next], "@@")); seek != "" {
				h.seek = append(h.seek, seek)
			}
			p.next++
		}
		for ; p.more() && !p.endsFile() && !strings.HasPrefix(p.lines[p.next], "@@"); p.next++ {
			if strings.TrimSpace(p.lines[p.next]) == endOfFile {
				h.atEnd = true
				p.next++
				break
			}
			if _, err := h.take(p.next+1, p.lines[p.next]); err != nil {
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
	line := p.lines[p.next]
	return strings.HasPrefix(line, "*** ") && strings.TrimSpace(line) != endOfFile
}
