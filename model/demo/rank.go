package demo

import (
	"fmt"
	"slices"
	"strings"
)

// How many of the ranked files are looked into.
const (
	explained = 3
	noTests   = 2 // of these at least so many that are no tests, if the ranking has them
)

// headLines is how much of a file is read to say what it does.
const headLines = 160

// planRanking counts, then looks into the first files.
func planRanking(in intent, t turn) step {
	if len(t.rounds) == 0 {
		limit := in.limit
		if in.smallest {
			limit = namedFiles // the tool begins with the longest
		}
		return step{calls: []call{rankCall(in, limit)}}
	}
	var c counted
	if got := t.rounds[0].at(0); !got.decode(&c) {
		return failed("count the lines in "+place(in.dir), t.rounds[0])
	}
	top, problem := ranked(in, c)
	if problem != "" {
		return step{answer: problem}
	}
	if !in.explain || !slices.Contains(t.tools, toolRead) {
		return step{answer: rankTable(in, c, top)}
	}
	looks := lookInto(t.tools, worthALook(top))
	if len(t.rounds) == 1 {
		return step{calls: looks.calls()}
	}
	return step{answer: rankTable(in, c, top) + explanations(top, looks.summaries(t.rounds[1]))}
}

// worthALook picks the first files. Where tests lead, it goes on to what they
// test.
func worthALook(top []fileCount) []string {
	var out []string
	plain := 0
	for i, f := range top {
		test := isTest(f.Path)
		if i >= explained && (test || plain >= noTests) {
			continue
		}
		if !test {
			plain++
		}
		out = append(out, f.Path)
	}
	return out
}

func isTest(name string) bool {
	base := base(name)
	return strings.HasPrefix(base, "test_") || strings.Contains(base, "_test.") || strings.Contains(base, ".test.") ||
		strings.Contains(base, ".spec.")
}

func rankCall(in intent, limit int) call {
	order := "lines"
	if in.bytes {
		order = "bytes"
	}
	return callOf(toolCount, arguments{Path: in.dir, Include: in.kind.glob(), Exclude: vendored, Sort: order, Limit: limit})
}

// ranked picks the files that the answer is about, or says why there are none.
func ranked(in intent, c counted) (top []fileCount, problem string) {
	switch {
	case len(c.Files) == 0:
		return nil, "There are no " + in.kind.title(0) + " in " + place(in.dir) + ".\n"
	case in.smallest && c.Total.Files > len(c.Files):
		return nil, wrap(fmt.Sprintf("There are %s in %s. The tool names only the longest %s of them, so I cannot tell the shortest: ask about a directory with fewer files.",
			thousands(c.Total.Files)+" "+in.kind.title(c.Total.Files), place(in.dir), thousands(len(c.Files))), 0)
	case in.smallest:
		slices.Reverse(c.Files)
	}
	return c.Files[:min(len(c.Files), in.limit)], ""
}

func rankTable(in intent, c counted, top []fileCount) string {
	word := "longest"
	switch {
	case in.smallest && in.bytes:
		word = "smallest"
	case in.smallest:
		word = "shortest"
	case in.bytes:
		word = "largest"
	}
	sum := count(c.Total.Lines, "line")
	if in.bytes {
		sum = size(c.Total.Bytes)
	}
	sum = " (" + sum + " in all, vendored code left out)"
	var b strings.Builder
	if c.Total.Files == len(top) {
		b.WriteString("All " + in.kind.title(2) + " in " + place(in.dir) + ", the " + word + " first" + sum + ":\n\n")
	} else {
		fmt.Fprintf(&b, "The %d %s of %s %s in %s%s:\n\n",
			len(top), word, thousands(c.Total.Files), in.kind.title(2), place(in.dir), sum)
	}
	var rows [][]string
	for i, f := range top {
		rows = append(rows, []string{fmt.Sprintf("%d.", i+1), count(f.Lines, "line"), size(f.Bytes), f.Path})
	}
	b.WriteString(table(rows, 2, 0, 1, 2))
	return b.String()
}

// explanations says what was found out about the files, under their ranks.
func explanations(top []fileCount, all []looked) string {
	var b strings.Builder
	b.WriteString("\nWhat they do, as far as their comments and declarations tell:\n")
	for _, l := range all {
		rank := 1 + slices.IndexFunc(top, func(f fileCount) bool { return f.Path == l.path })
		fmt.Fprintf(&b, "\n%d. %s\n%s", rank, l.path, l.describe())
	}
	return b.String()
}
