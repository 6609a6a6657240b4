package demo

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// How much is read around a definition.
const (
	commentLines = 12
	blockLines   = 30
)

// planLocating finds where a name is defined, or used. A definition is shown with
// the lines around it.
func planLocating(in intent, t turn) step {
	pkg, name := splitName(in.phrase)
	pattern := definitionOf(name)
	if in.uses {
		pattern = wholeWord(name)
	}
	if len(t.rounds) == 0 {
		return step{calls: []call{patternCall(in, pattern)}}
	}
	first := t.rounds[0].at(0)
	if first.isError {
		return failed("search "+place(in.dir), t.rounds[0])
	}
	f := preferPackage(searched(first), pkg)
	if in.uses {
		return step{answer: used(in, name, f)}
	}
	if len(f.matches) == 0 {
		return undefined(in, name, t)
	}
	if len(t.rounds) == 1 && slices.Contains(t.tools, toolRead) {
		m := f.matches[0]
		return step{calls: []call{readCall(m.path, max(1, m.line-commentLines), m.line+blockLines)}}
	}
	return step{answer: defined(in, f, t.last().at(0))}
}

func patternCall(in intent, pattern string) call {
	return callOf(toolSearch, arguments{Pattern: pattern, Path: in.dir, Include: in.kind.glob(), Limit: 200, Exclude: vendored})
}

// splitName takes loop.State apart. The first part may be a package or a type.
func splitName(phrase string) (pkg, name string) {
	if i := strings.LastIndexByte(phrase, '.'); i >= 0 {
		return phrase[:i], phrase[i+1:]
	}
	return "", phrase
}

// definitionOf matches a line that defines the name, in most languages: a keyword
// before it, or an assignment that is not in the middle of an expression.
func definitionOf(name string) string {
	const before = `(export |default |pub |public |private |static |abstract |final |async )*`
	const keyword = `(func( \([^)]*\))?|type|var|const|let|def|class|fn|function|struct|enum|trait|interface|module|#define)`
	quoted := regexp.QuoteMeta(name)
	return `^\s*` + before + keyword + ` +` + quoted + `\b|^\s*` + quoted + `( +[\w.*\[\]]+)? += `
}

func wholeWord(name string) string { return `\b` + regexp.QuoteMeta(name) + `\b` }

// preferPackage keeps the matches in directories or on receivers of that name, if
// there are some.
func preferPackage(f found, pkg string) found {
	if pkg == "" {
		return f
	}
	var near []match
	for _, m := range f.matches {
		if path.Base(path.Dir(m.path)) == pkg || strings.Contains(m.text, pkg+")") {
			near = append(near, m)
		}
	}
	if len(near) > 0 {
		f.matches = near
	}
	return f
}

// undefined looks for mentions of a name that no definition was found of.
func undefined(in intent, name string, t turn) step {
	if len(t.rounds) == 1 {
		return step{calls: []call{patternCall(in, wholeWord(name))}}
	}
	f := searched(t.last().at(0))
	title := "I found no definition of " + in.phrase + " in " + in.where() + " (vendored code left out)"
	switch {
	case t.last().at(0).isError:
		return failed("search "+place(in.dir), t.last())
	case len(f.matches) == 0:
		return step{answer: title + ", and no mention of it either.\n"}
	}
	return step{answer: title + ". It is mentioned on " + tally(f) + ":\n" + byFile(f)}
}

// defined shows the first definition in its surroundings, and names the others.
func defined(in intent, f found, around answered) string {
	m := f.matches[0]
	var b strings.Builder
	b.WriteString(in.phrase + " is defined at " + m.path + ":" + strconv.Itoa(m.line) + "\n\n")
	if p, ok := around.page(); ok {
		b.WriteString(excerpt(p, m.line))
	} else {
		b.WriteString(numbered(m.line, len(strconv.Itoa(m.line)), m.text))
	}
	rest := f.matches[1:]
	if len(rest) == 0 {
		return b.String()
	}
	b.WriteString("\nAlso:\n")
	shown := rest[:min(len(rest), 10)]
	var rows [][]string
	for _, m := range shown {
		rows = append(rows, []string{m.path + ":" + strconv.Itoa(m.line), clip(m.text, 50)})
	}
	b.WriteString(table(rows, 2) + more(len(rest)-len(shown), "definition"))
	return b.String()
}

// excerpt shows the definition at the line with its comment, up to the end of its
// block or of the page.
func excerpt(p page, line int) string {
	lines := strings.Split(strings.TrimSuffix(p.text, "\n"), "\n")
	at := line - p.first
	if at < 0 || at >= len(lines) {
		return ""
	}
	from, to := at, at+1
	for from > 0 && isCommentary(lines[from-1]) {
		from--
	}
	indent := indentation(lines[at])
	if opens(lines[at]) {
		for to < len(lines) && (strings.TrimSpace(lines[to]) == "" || indentation(lines[to]) > indent) {
			to++
		}
		if to < len(lines) && closes(lines[to]) {
			to++
		}
	}
	var b strings.Builder
	digits := len(strconv.Itoa(p.first + to))
	for i := from; i < to; i++ {
		n := strconv.Itoa(p.first + i)
		text := strings.ReplaceAll(lines[i], "\t", "    ")
		b.WriteString(strings.TrimRight(strings.Repeat(" ", 2+digits-len(n))+n+"  "+text, " \r") + "\n")
	}
	if to == len(lines) && p.last < p.total && !closes(lines[to-1]) {
		b.WriteString(strings.Repeat(" ", 2+digits) + "  …\n")
	}
	return b.String()
}

func closes(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "}") || strings.HasPrefix(line, ")") || strings.HasPrefix(line, "]")
}

func isCommentary(line string) bool {
	line = strings.TrimSpace(line)
	for _, start := range []string{"//", "#", "/*", "*", "--", ";", "@"} {
		if strings.HasPrefix(line, start) {
			return true
		}
	}
	return false
}

func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

func opens(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasSuffix(line, "{") || strings.HasSuffix(line, "(") || strings.HasSuffix(line, ":") || strings.HasSuffix(line, "[")
}

// used tells definitions and uses apart.
func used(in intent, name string, f found) string {
	definition := regexp.MustCompile(definitionOf(name))
	var at []string
	var uses found
	for _, m := range f.matches {
		if definition.MatchString(m.text) {
			at = append(at, m.path+":"+strconv.Itoa(m.line))
			continue
		}
		uses.matches = append(uses.matches, m)
	}
	uses.partial = f.partial
	var b strings.Builder
	switch {
	case len(f.matches) == 0:
		return in.phrase + " occurs nowhere in " + in.where() + " (vendored code left out).\n"
	case len(uses.matches) == 0:
		b.WriteString(in.phrase + " is not used in " + in.where() + ".\n")
	default:
		b.WriteString(in.phrase + " is used on " + tally(uses) + " in " + in.where() + ":\n" + byFile(uses))
	}
	if len(at) > 0 {
		b.WriteString("\nDefined at " + strings.Join(at[:min(len(at), 5)], ", ") + "\n")
	}
	return b.String()
}
