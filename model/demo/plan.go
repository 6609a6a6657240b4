package demo

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnlog/turnlog/content"
)

const (
	headLines = 150 // lines read of each ranked file
	pageLines = 60  // lines shown of one file
	mostFiles = 5   // files ranked

	vendored = "{vendor,node_modules,third_party}"
)

// A plan returns the next step for a question. It gets the results of the rounds so far; in the last
// round at least one call has succeeded.

// rank names the longest files and, if asked, reads their first lines to say what
// they do.
func rank(q question, rounds [][]content.ToolResult) step {
	if len(rounds) == 0 {
		return calling("fs_count", args{"path": q.dir, "include": q.glob, "exclude": vendored, "sort": "lines", "limit": mostFiles})
	}
	c := counted(rounds[0])
	if len(c.Files) == 0 {
		return step{answer: fmt.Sprintf("There is no %s in %s.\n", q.noun, q.place())}
	}
	if q.explain && len(rounds) == 1 {
		var s step
		for _, f := range c.Files {
			s.calls = append(s.calls, call("fs_read_file", args{"path": f.Path, "last_line": headLines}))
		}
		return s
	}
	var b strings.Builder
	fmt.Fprintf(&b, "These are the longest of %s in %s (%s in all, vendored code left out):\n\n",
		number(c.Total.Files, q.noun), q.place(), number(c.Total.Lines, "line"))
	for i, f := range c.Files {
		fmt.Fprintf(&b, "%2d. %s, %s\n", i+1, f.Path, number(f.Lines, "line"))
		if q.explain && i < len(rounds[1]) {
			b.WriteString(strings.ReplaceAll(indent(explained(f.Path, rounds[1][i])), "  ", "    "))
		}
	}
	return step{answer: b.String()}
}

// counts is the output of fs_count.
type counts struct {
	Files []struct {
		Path  string
		Lines int
	}
	Total struct{ Files, Lines int }
}

// counted reads the first result. Output in another form counts as no files.
func counted(round []content.ToolResult) counts {
	var c counts
	if json.Unmarshal([]byte(round[0].Text()), &c) != nil {
		return counts{}
	}
	return c
}

// read shows the beginning of a file or says what the file does.
func read(q question, rounds [][]content.ToolResult) step {
	if len(rounds) == 0 {
		return calling("fs_read_file", args{"path": q.file, "last_line": pageLines})
	}
	if q.explain {
		return step{answer: q.file + "\n" + indent(explained(q.file, rounds[0][0]))}
	}
	return step{answer: indent(rounds[0][0].Text())}
}

// list shows a directory.
func list(q question, rounds [][]content.ToolResult) step {
	if len(rounds) == 0 {
		return calling("fs_list_directory", args{"path": q.dir})
	}
	return step{answer: "In " + q.place() + ":\n\n" + indent(rounds[0][0].Text())}
}

// survey shows the directory and says what its README begins with.
func survey(q question, rounds [][]content.ToolResult) step {
	const readme = "README.md"
	if len(rounds) == 0 {
		return step{calls: []content.ToolCall{
			call("fs_list_directory", args{}), call("fs_read_file", args{"path": readme, "last_line": pageLines}),
		}}
	}
	s := list(question{}, rounds)
	if round := rounds[0]; len(round) > 1 && succeeded(round[1]) {
		s.answer = readme + "\n" + indent(explained(readme, round[1])) + "\n" + s.answer
	}
	return s
}

func decline(question, [][]content.ToolResult) step {
	return step{answer: `I answer only a few kinds of questions. Ask me about the files here, for example:

  Which Go files here are the longest, and what do they do?
  What is in this project?
  What does main.go do?
`}
}

func (q question) place() string {
	if q.dir == "" {
		return "this directory"
	}
	return q.dir
}

// number renders a count with its noun: 1 file, 3 files.
func number(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// indent indents every line of text by two spaces.
func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight("  "+line, "\r\n ") + "\n")
	}
	return b.String()
}
