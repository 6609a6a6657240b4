package demo

import (
	"path"
	"slices"
	"strings"
)

// namedFiles is how many files a count is asked to name. Totals cover all.
const namedFiles = 1000

// planCounting counts files and lines.
func planCounting(in intent, t turn) step {
	if len(t.rounds) == 0 {
		return step{calls: []call{countCall(in, "lines", namedFiles)}}
	}
	var c counted
	if got := t.rounds[0].at(0); !got.decode(&c) {
		return failed("count in "+place(in.dir), t.rounds[0])
	}
	what := in.kind.title(c.Total.Files)
	if c.Total.Files == 0 {
		return step{answer: "There are no " + what + " in " + place(in.dir) + ".\n"}
	}
	var b strings.Builder
	lines := " has "
	if c.Total.Files > 1 {
		lines = " have "
	}
	if in.file != "" && c.Total.Files == 1 {
		b.WriteString(c.Files[0].Path + " has " + count(c.Total.Lines, "line") + " (" + size(c.Total.Bytes) + ").\n")
		return step{answer: b.String()}
	}
	b.WriteString(thousands(c.Total.Files) + " " + textual(in.kind, what) + " in " + place(in.dir) + lines +
		count(c.Total.Lines, "line") + " (" + size(c.Total.Bytes) + ").\n")
	if groups := grouped(in, c.Files); len(groups) > 1 {
		b.WriteString("\n" + groupTable(groups))
		if c.Total.Files > len(c.Files) {
			b.WriteString("  (of the " + thousands(len(c.Files)) + " longest files)\n")
		}
	}
	return step{answer: b.String()}
}

// textual says that only text was counted, where no kind says so.
func textual(k kind, what string) string {
	if k.name == "" {
		return "text " + what
	}
	return what
}

func countCall(in intent, order string, limit int) call {
	return callOf(toolCount, arguments{Path: in.dir, Include: in.kind.glob(), Sort: order, Limit: limit})
}

// group sums files up.
type group struct {
	name         string
	files, lines int
	bytes        int64
}

// grouped sums up by kind of file or, if all are of one kind, by directory. Most
// lines come first.
func grouped(in intent, files []fileCount) []group {
	key := func(f fileCount) string { return extensionOf(f.Path) }
	if in.kind.name != "" {
		key = func(f fileCount) string { return topDirectory(in.dir, f.Path) }
	}
	var groups []group
	for _, f := range files {
		name := key(f)
		i := slices.IndexFunc(groups, func(g group) bool { return g.name == name })
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{name: name})
		}
		groups[i].files++
		groups[i].lines += f.Lines
		groups[i].bytes += f.Bytes
	}
	slices.SortStableFunc(groups, func(a, b group) int { return b.lines - a.lines })
	return groups
}

func extensionOf(name string) string {
	ext := path.Ext(name)
	if ext == "" || ext == path.Base(name) {
		return "(no extension)"
	}
	return "*" + ext
}

func topDirectory(dir, name string) string {
	below := name
	if dir != "." {
		below = strings.TrimPrefix(name, dir+"/")
	}
	top, _, deeper := strings.Cut(below, "/")
	if !deeper {
		return "(directly)"
	}
	return top + "/"
}

func groupTable(groups []group) string {
	const most = 15
	var rows [][]string
	for _, g := range groups[:min(len(groups), most)] {
		rows = append(rows, []string{g.name, count(g.files, "file"), count(g.lines, "line"), size(g.bytes)})
	}
	return table(rows, 2, 1, 2, 3) + more(len(groups)-most, "group")
}
