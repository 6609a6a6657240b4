package demo

import (
	"slices"
	"strings"
)

// planHelp says what the model understands, and shows the directory meanwhile.
func planHelp(in intent, t turn) step {
	if len(t.rounds) == 0 && slices.Contains(t.tools, toolList) {
		return step{calls: []call{listCall(".", 1)}}
	}
	var b strings.Builder
	if in.verb == unclear {
		b.WriteString(wrap("I did not understand the question; I know only a few kinds, and only about files.", 0))
	} else {
		b.WriteString(wrap("I answer questions about the files here:", 0))
	}
	b.WriteString(`
I can list directories, find and read files, search for words, count files and lines, rank files
by length and say what they do, find where a name is defined or used, and sum up a project. Try:

  Which Go files here are the longest, and what do they do?
  Where is NewServer defined?
  What is in this project?
`)
	if len(t.rounds) > 0 {
		if d := listed(t.rounds[0].at(0)); len(d.entries) > 0 {
			b.WriteString("\nThese files are here:\n\n" + columns(d.entries))
		}
	}
	return step{answer: b.String()}
}
