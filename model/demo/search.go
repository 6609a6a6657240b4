package demo

import (
	"strconv"
	"strings"
)

// planSearching looks for a phrase, and once more without regard to case if it
// was not found.
func planSearching(in intent, t turn) step {
	lower := in.phrase == strings.ToLower(in.phrase)
	if len(t.rounds) == 0 {
		return step{calls: []call{searchCall(in, lower)}}
	}
	if t.last().at(0).isError {
		return failed("search "+place(in.dir), t.last())
	}
	f := searched(t.last().at(0))
	if len(f.matches) == 0 && len(t.rounds) == 1 && !lower {
		return step{calls: []call{searchCall(in, true)}}
	}
	quoted := strconv.Quote(in.phrase)
	if len(f.matches) == 0 {
		return step{answer: quoted + " occurs nowhere in " + in.where() + ".\n"}
	}
	title := quoted + " is on " + tally(f) + " in " + in.where()
	if len(t.rounds) == 2 {
		title += ", but not in this spelling"
	}
	return step{answer: title + ":\n" + byFile(f)}
}

func searchCall(in intent, ignoreCase bool) call {
	return callOf(toolSearch, arguments{
		Pattern: in.phrase, Literal: true, IgnoreCase: ignoreCase,
		Path: in.dir, Include: in.kind.glob(), Limit: 200,
	})
}

// where names what was looked through.
func (in intent) where() string {
	if in.kind.name == "" {
		return place(in.dir)
	}
	return "the " + in.kind.title(2) + " of " + place(in.dir)
}

// tally says how much was found: 12 lines of 3 files.
func tally(f found) string {
	s := count(len(f.matches), "line") + " of " + count(f.files(), "file")
	if f.partial {
		return "at least " + s
	}
	return s
}

// byFile shows the lines that were found below the names of their files.
func byFile(f found) string {
	shown := f.matches[:min(len(f.matches), maxRows)]
	digits := 0
	for _, m := range shown {
		digits = max(digits, len(strconv.Itoa(m.line)))
	}
	var b strings.Builder
	file := ""
	for _, m := range shown {
		if m.path != file {
			file = m.path
			b.WriteString("\n" + file + "\n")
		}
		b.WriteString(numbered(m.line, digits, m.text))
	}
	if rest := more(len(f.matches)-len(shown), "line"); rest != "" {
		b.WriteString("\n" + rest)
	}
	return b.String()
}

// numbered shows a line of a file with its number.
func numbered(line, digits int, text string) string {
	n := strconv.Itoa(line)
	return strings.TrimRight(strings.Repeat(" ", 2+digits-len(n))+n+"  "+clip(text, width-digits-4), " ") + "\n"
}
