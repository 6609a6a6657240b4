//go:build unix

package docs

import (
	"regexp"
	"strings"
)

// command is a command of a page, and what it prints if the page says so.
type command struct {
	line   int
	text   string // without a comment at its end
	output []string
	inform bool // the page shows its output
}

// block is a part of a page that shows a terminal.
type block struct {
	line  int
	lines []string
}

// blocks returns the indented blocks of a page, and those that are marked sh or console.
func blocks(text string) (all []block) {
	var b block
	fence, blank := "", true
	flush := func() {
		for len(b.lines) > 0 && b.lines[len(b.lines)-1] == "" {
			b.lines = b.lines[:len(b.lines)-1]
		}
		if len(b.lines) > 0 {
			all = append(all, b)
		}
		b = block{}
	}
	add := func(n int, line string) {
		if len(b.lines) == 0 {
			b.line = n
		}
		b.lines = append(b.lines, line)
	}
	for i, line := range strings.Split(text, "\n") {
		mark, fenced := strings.CutPrefix(line, "```")
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case fenced && fence == "":
			flush()
			fence = mark + "`"
		case fenced:
			flush()
			fence = ""
		case fence != "":
			if fence == "sh`" || fence == "console`" {
				add(i+1, line)
			}
		case indented && (blank || len(b.lines) > 0):
			add(i+1, code)
		case line == "" && len(b.lines) > 0:
			add(i+1, "")
		default:
			flush()
		}
		blank = line == ""
	}
	flush()
	return all
}

// comment is what follows a command, and document the beginning of one within it.
var (
	comment  = regexp.MustCompile(`  +# .*$`)
	document = regexp.MustCompile(`<<'(\w+)'$`)
)

// commands returns the commands of a block.
func (b block) commands() (all []command) {
	session, end := false, ""
	for _, line := range b.lines {
		session = session || strings.HasPrefix(line, "$ ")
	}
	for i, line := range b.lines {
		text, typed := line, !session
		if session {
			text, typed = strings.CutPrefix(line, "$ ")
		}
		switch {
		case end != "":
			all[len(all)-1].text += "\n" + line
			if line == end {
				end = ""
			}
		case typed && strings.TrimSpace(line) != "":
			c := command{line: b.line + i, text: comment.ReplaceAllString(text, "")}
			if m := document.FindStringSubmatch(c.text); m != nil {
				end = m[1]
			}
			all = append(all, c)
		case session && len(all) > 0:
			last := &all[len(all)-1]
			last.output, last.inform = append(last.output, line), true
		}
	}
	return all
}

// printed reports the first line of an expected output that a program did not print.
func printed(want []string, have string) (missing string, ok bool) {
	lines := strings.Split(have, "\n")
	anywhere := true // the next line need not follow at once
	for _, w := range want {
		if strings.TrimSpace(w) == "…" {
			anywhere = true
			continue
		}
		re := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(strings.TrimRight(w, " ")), "…", ".*") + " *$")
		at := 0
		for at < len(lines) && anywhere && !re.MatchString(lines[at]) {
			at++
		}
		if at >= len(lines) || !re.MatchString(lines[at]) {
			return w, false
		}
		lines, anywhere = lines[at+1:], false
	}
	return "", true
}
