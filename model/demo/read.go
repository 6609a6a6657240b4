package demo

import (
	"slices"
	"strconv"
	"strings"
)

// How many lines of a file an answer shows.
const (
	shownLines  = 60  // when none were asked for
	askedLines  = 200 // of a range at most
	sampleLines = 12  // below an explanation
)

// planReading shows or explains a file. A name that does not exist is looked for
// elsewhere, and a directory is listed.
func planReading(in intent, t turn) step {
	switch len(t.rounds) {
	case 0:
		return step{calls: readCalls(in, in.file, t.tools)}
	case 1:
		first := t.rounds[0].at(0)
		switch {
		case !first.isError:
			return step{answer: readAnswer(in, in.file, t.rounds[0])}
		case first.code == codeMissing && slices.Contains(t.tools, toolFind):
			return step{calls: []call{callOf(toolFind, arguments{Glob: nameGlob(in.file), Type: "file", Limit: 20})}}
		case first.code == codeKind && slices.Contains(t.tools, toolList):
			return step{calls: []call{listCall(in.file, 1)}}
		}
		return failed("read "+in.file, t.rounds[0])
	case 2:
		return afterDetour(in, t)
	}
	name := listed(t.rounds[1].at(0)).best()
	if t.last().at(0).isError {
		return failed("read "+name, t.last())
	}
	answer := "There is no " + in.file + ", but there is " + name + ":\n\n" + readAnswer(in, name, t.last())
	if others := len(listed(t.rounds[1].at(0)).entries) - 1; others > 0 {
		answer += "\n(And " + count(others, "other") + " of that name.)\n"
	}
	return step{answer: answer}
}

// afterDetour goes on with what a search for the name found, or with a listing.
func afterDetour(in intent, t turn) step {
	got := t.rounds[1].at(0)
	if got.name == toolList {
		in.dir = in.file
		return planListing(in, turn{rounds: t.rounds[1:]})
	}
	d := listed(got)
	if len(d.entries) == 0 {
		return failed("read "+in.file, t.rounds[0])
	}
	return step{calls: readCalls(in, d.best(), t.tools)}
}

// best is the path with the fewest directories.
func (d directory) best() string {
	best := d.entries[0].path
	for _, e := range d.entries {
		if strings.Count(e.path, "/") < strings.Count(best, "/") {
			best = e.path
		}
	}
	return best
}

func readCalls(in intent, file string, tools []string) []call {
	if in.explain {
		return lookInto(tools, []string{file}).calls()
	}
	last := shownLines
	if in.from > 0 {
		last = min(in.to, in.from+askedLines-1)
	}
	return []call{readCall(file, in.from, last)}
}

func readAnswer(in intent, file string, r round) string {
	p, ok := r.at(0).page()
	switch {
	case !ok:
		return wrap(r.at(0).complaint(), 0)
	case p.total == 0:
		return file + " is empty.\n"
	case !in.explain:
		return heading(p) + ":\n\n" + body(p) + unread(p, in)
	}
	l := lookInto(r.tools(), []string{file}).summaries(r)[0]
	answer := file + " has " + count(p.total, "line") + " (" + size(p.bytes) + ").\n\n" + l.describe()
	if len(l.declares) > 0 {
		return answer + "\nIts declarations:\n\n" + declarationLines(l.declares)
	}
	p.text, p.last = firstLines(p.text, sampleLines), min(p.last, sampleLines)
	return answer + "\nIt begins:\n\n" + body(p)
}

func declarationLines(all []match) string {
	shown := all[:min(len(all), maxRows)]
	digits := len(strconv.Itoa(shown[len(shown)-1].line))
	var b strings.Builder
	for _, m := range shown {
		b.WriteString(numbered(m.line, digits, strings.TrimSuffix(m.text, " {")))
	}
	return b.String() + more(len(all)-len(shown), "declaration")
}

func heading(p page) string {
	if p.first == 1 && p.last == p.total {
		return p.path + ", " + count(p.total, "line")
	}
	return p.path + ", lines " + thousands(p.first) + " to " + thousands(p.last) + " of " + thousands(p.total)
}

// body shows the lines with their numbers, whole.
func body(p page) string {
	digits := len(strconv.Itoa(p.last))
	var b strings.Builder
	n := p.first
	for line := range strings.Lines(p.text) {
		number := strconv.Itoa(n)
		text := strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    ")
		b.WriteString(strings.TrimRight(strings.Repeat(" ", 2+digits-len(number))+number+"  "+text, " ") + "\n")
		n++
	}
	return b.String()
}

// unread says how to see the rest.
func unread(p page, in intent) string {
	if p.last >= p.total || in.from > 0 && p.last >= in.to {
		return ""
	}
	next := p.last + 1
	return "\n  … and " + count(p.total-p.last, "more line") + ": ask for lines " +
		strconv.Itoa(next) + "-" + strconv.Itoa(min(p.total, next+askedLines-1)) + " of " + p.path + "\n"
}

func firstLines(text string, n int) string {
	end := 0
	for ; n > 0; n-- {
		i := strings.IndexByte(text[end:], '\n')
		if i < 0 {
			return text
		}
		end += i + 1
	}
	return text[:end]
}
