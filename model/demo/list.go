package demo

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// deepest is how many levels of a tree are asked for.
const deepest = 3

// planListing lists a directory, or draws the tree below it.
func planListing(in intent, t turn) step {
	depth := 1
	if in.tree {
		depth = deepest
	}
	if len(t.rounds) == 0 {
		return step{calls: []call{listCall(in.dir, depth)}}
	}
	got := t.rounds[0].at(0)
	if got.isError {
		return failed("list "+place(in.dir), t.rounds[0])
	}
	d := listed(got)
	if len(d.entries) == 0 {
		return step{answer: sentenceCase(place(in.dir)) + " is empty.\n"}
	}
	dirs, bytes := 0, int64(0)
	for _, e := range d.entries {
		if e.isDir {
			dirs++
		}
		bytes += max(e.bytes, 0)
	}
	files := len(d.entries) - dirs
	title := sentenceCase(place(in.dir)) + " holds " + count(dirs, "directory") + " and " + count(files, "file") + ", " + size(bytes) + ":"
	if in.tree {
		return step{answer: title + "\n\n" + drawTree(in.dir, d.entries) + stopped(d.partial)}
	}
	return step{answer: title + "\n\n" + longListing(d.entries) + stopped(d.partial)}
}

func stopped(partial bool) string {
	if partial {
		return "  … and more: the tool stopped there\n"
	}
	return ""
}

// sentenceCase begins a sentence with this directory, but leaves names alone.
func sentenceCase(s string) string {
	if rest, ok := strings.CutPrefix(s, "this "); ok {
		return "This " + rest
	}
	return s
}

// longListing shows directories first, then files with their sizes.
func longListing(entries []entry) string {
	var rows [][]string
	for _, e := range directoriesFirst(entries) {
		row := []string{e.label(), ""}
		if !e.isDir && e.bytes >= 0 {
			row[1] = size(e.bytes)
		}
		rows = append(rows, row)
	}
	shown := min(len(rows), maxRows)
	return table(rows[:shown], 2, 1) + more(len(rows)-shown, "entry")
}

func directoriesFirst(entries []entry) []entry {
	sorted := slices.Clone(entries)
	slices.SortStableFunc(sorted, func(a, b entry) int {
		switch {
		case a.isDir == b.isDir:
			return 0
		case a.isDir:
			return -1
		}
		return 1
	})
	return sorted
}

// label is the entry's own name, with a slash behind a directory's.
func (e entry) label() string {
	if e.isDir {
		return base(e.path) + "/"
	}
	return base(e.path)
}

// columns shows the names side by side, as many as fit.
func columns(entries []entry) string {
	entries = directoriesFirst(entries)
	shown := entries[:min(len(entries), 2*maxRows)]
	widest := 0
	for _, e := range shown {
		widest = max(widest, utf8.RuneCountInString(e.label()))
	}
	perRow := max(1, min((width-2)/(widest+2), 5))
	height := (len(shown) + perRow - 1) / perRow
	rows := make([][]string, height)
	for i, e := range shown {
		rows[i%height] = append(rows[i%height], e.label())
	}
	return table(rows, 2) + more(len(entries)-len(shown), "entry")
}

// drawTree indents every entry by its depth below dir. A tree that would be too
// long is drawn less deep.
func drawTree(dir string, entries []entry) string {
	const most = 120
	depth := deepest
	for depth > 1 && within(dir, entries, depth) > most {
		depth--
	}
	var b strings.Builder
	drawn := 0
	for _, e := range entries {
		if level := e.level(dir); level <= depth && drawn < most {
			b.WriteString(strings.Repeat("  ", level) + e.label() + "\n")
			drawn++
		}
	}
	return b.String() + more(within(dir, entries, depth)-drawn, "entry") + deeper(len(entries)-within(dir, entries, depth))
}

// level is how deep the entry lies below dir, 1 if directly.
func (e entry) level(dir string) int {
	below := e.path
	if dir != "." {
		below = strings.TrimPrefix(below, dir+"/")
	}
	return 1 + strings.Count(below, "/")
}

func within(dir string, entries []entry, depth int) int {
	n := 0
	for _, e := range entries {
		if e.level(dir) <= depth {
			n++
		}
	}
	return n
}

func deeper(n int) string {
	if n == 0 {
		return ""
	}
	return "  … and " + thousands(n) + " more below these\n"
}
