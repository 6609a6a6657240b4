package demo

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// looks are the calls that look into files: the head of each, one search for the
// declarations of those that are code, and for Go the comments of the packages.
type looks struct {
	files []string
	code  []string // those that declare things
	dirs  []string // of the Go files
}

// looked is what they told about one file.
type looked struct {
	path     string
	problem  string
	summary  summary
	declares []match
	atLeast  bool   // there may be more of them
	pkgDoc   string // from another file of the package
}

func lookInto(tools, files []string) looks {
	l := looks{files: files}
	if !slices.Contains(tools, toolSearch) {
		return l
	}
	for _, f := range files {
		if isCode(f) {
			l.code = append(l.code, f)
		}
		if dir := path.Dir(f); strings.HasSuffix(f, ".go") && !slices.Contains(l.dirs, dir) {
			l.dirs = append(l.dirs, dir)
		}
	}
	return l
}

func (l looks) calls() []call {
	var calls []call
	for _, f := range l.files {
		calls = append(calls, readCall(f, 0, headLines))
	}
	if len(l.code) > 0 {
		calls = append(calls, callOf(toolSearch, arguments{Pattern: declares(l.code), Include: anyOf(l.code, ""), Limit: 1000}))
	}
	inRoot := slices.Contains(l.dirs, ".")
	if inRoot { // the names of the root have no slash, so a glob would find them everywhere
		calls = append(calls, callOf(toolSearch, arguments{
			Pattern: packageComment, Include: "*.go", Exclude: "*/*", Context: 6, Limit: 5,
		}))
	}
	if below := slices.DeleteFunc(slices.Clone(l.dirs), func(dir string) bool { return dir == "." }); len(below) > 0 {
		calls = append(calls, callOf(toolSearch, arguments{
			Pattern: packageComment, Include: anyOf(below, "/*.go"), Context: 6, Limit: 20,
		}))
	}
	return calls
}

// anyOf is a glob for paths with the ending.
func anyOf(names []string, ending string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = globQuote(n) + ending
	}
	if len(quoted) == 1 {
		return quoted[0]
	}
	return "{" + strings.Join(quoted, ",") + "}"
}

// packageComment matches the first line of the comment of a Go package.
const packageComment = `^(//|/\*)? ?(Package|Command) [a-z]\w* `

// summaries reads what the calls returned: heads first, then searches.
func (l looks) summaries(r round) []looked {
	var hits found
	for i := len(l.files); i < len(r); i++ {
		f := searched(r[i])
		hits.matches, hits.context = append(hits.matches, f.matches...), append(hits.context, f.context...)
		hits.partial = hits.partial || f.partial
	}
	all := make([]looked, len(l.files))
	for i, f := range l.files {
		one := looked{path: f, atLeast: hits.partial}
		if p, ok := r.at(i).page(); ok {
			one.summary = summarize(f, p.text)
		} else {
			one.problem = r.at(i).complaint()
		}
		one.take(hits)
		all[i] = one
	}
	return all
}

// take picks what concerns the file.
func (l *looked) take(hits found) {
	for _, m := range hits.matches {
		switch {
		case path.Dir(m.path) == path.Dir(l.path) && l.summary.documents(uncomment(m.text)):
			if l.pkgDoc == "" {
				l.pkgDoc = synopsis(m, hits.context)
			}
		case m.path == l.path:
			l.declares = append(l.declares, m)
		}
	}
}

// documents reports whether a comment that begins so is that of the Go package.
func (s summary) documents(comment string) bool {
	if s.pkg == "main" && strings.HasPrefix(comment, "Command ") {
		return true
	}
	return s.pkg != "" && strings.HasPrefix(comment, "Package "+strings.TrimSuffix(s.pkg, "_test")+" ")
}

// isCode reports whether a file declares things.
func isCode(name string) bool {
	switch path.Ext(name) {
	case ".md", ".markdown", ".json", ".yaml", ".yml", ".toml", ".txt", ".html", ".css", ".xml", ".csv", ".sum", ".mod", "":
		return false
	}
	return true
}

// declares matches the lines of files that declare something at the top level.
func declares(files []string) string {
	if slices.ContainsFunc(files, func(f string) bool { return !strings.HasSuffix(f, ".go") }) {
		return declaration
	}
	return `^(func|type) `
}

// synopsis joins the lines of a comment from m on and cuts it behind the first
// sentence.
func synopsis(m match, around []match) string {
	text := uncomment(m.text)
	for next := m.line + 1; ; next++ {
		i := slices.IndexFunc(around, func(c match) bool { return c.path == m.path && c.line == next })
		if i < 0 || uncomment(around[i].text) == "" || strings.HasPrefix(around[i].text, "package ") {
			return firstSentence(unlink(text))
		}
		text += " " + uncomment(around[i].text)
	}
}

func uncomment(line string) string {
	line = strings.TrimSpace(line)
	line = strings.TrimPrefix(strings.TrimPrefix(line, "//"), "/*")
	return strings.TrimSpace(strings.TrimSuffix(line, "*/"))
}

// describe says what is known about a file, in a few lines.
func (l looked) describe() string {
	if l.problem != "" {
		return wrap(l.problem, 2)
	}
	var b strings.Builder
	said := l.summary.say(l.path, l.pkgDoc)
	for _, line := range said {
		b.WriteString(wrap(line, 2))
	}
	if list := inventory(l.path, l.declares); list != "" {
		verb := "It declares "
		if l.atLeast {
			verb = "It declares at least "
		}
		b.WriteString(wrap(verb+list+".", 2))
	} else if len(said) == 0 {
		b.WriteString(wrap("Its first lines say nothing about it.", 2))
	}
	return b.String()
}

// declarations are all that a file declares with one keyword.
type declarations struct {
	noun  string
	names []string
}

// inventory sums up what a file declares: 2 types (State, Wait), 40 functions …
func inventory(file string, lines []match) string {
	var all []declarations
	for _, m := range lines {
		noun, name := declaredBy(file, m.text)
		if name == "" {
			continue
		}
		i := slices.IndexFunc(all, func(d declarations) bool { return d.noun == noun })
		if i < 0 {
			i = len(all)
			all = append(all, declarations{noun: noun})
		}
		all[i].names = append(all[i].names, name)
	}
	slices.SortStableFunc(all, func(a, b declarations) int { return weight(a.noun) - weight(b.noun) })
	var parts []string
	for _, d := range all {
		part := count(len(d.names), d.noun)
		if d.noun != "method" {
			part += " (" + someOf(d.names) + ")"
		}
		parts = append(parts, part)
	}
	return joinWords(parts)
}

// weight orders what a file declares: what it is there for comes first.
func weight(noun string) int {
	switch noun {
	case "test", "benchmark", "fuzz test", "example":
		return 0
	case "function":
		return 2
	case "method":
		return 3
	}
	return 1
}

// someOf names the first few, exported ones before others.
func someOf(names []string) string {
	const most = 5
	sorted := slices.Clone(names)
	slices.SortStableFunc(sorted, func(a, b string) int { return rankOf(a) - rankOf(b) })
	if len(sorted) > most {
		return strings.Join(sorted[:most], ", ") + ", …"
	}
	return strings.Join(sorted, ", ")
}

func rankOf(name string) int {
	if name[0] >= 'A' && name[0] <= 'Z' {
		return 0
	}
	return 1
}

func joinWords(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	last := len(parts) - 1
	return strings.Join(parts[:last], ", ") + " and " + parts[last]
}

// declaredBy takes a line that declares something apart.
func declaredBy(file, line string) (noun, name string) {
	if strings.HasSuffix(file, ".go") {
		return declaredInGo(file, line)
	}
	m := regexp.MustCompile(`^(?:[a-z()]+ )*?(def|class|function|fn|struct|enum|trait|impl|interface|type|module|mod|namespace|package|object|message|service)\s+(\w+)`).
		FindStringSubmatch(line)
	if m == nil {
		return "", ""
	}
	switch m[1] {
	case "def", "function", "fn":
		return "function", m[2]
	case "mod":
		return "module", m[2]
	case "impl":
		return "implementation", m[2]
	}
	return m[1], m[2]
}

func declaredInGo(file, line string) (noun, name string) {
	m := regexp.MustCompile(`^(func|type) (\([^)]*\) )?(\w+)`).FindStringSubmatch(line)
	switch {
	case m == nil:
		return "", ""
	case m[1] == "type":
		return "type", m[3]
	case m[2] != "":
		return "method", m[3]
	case strings.HasSuffix(file, "_test.go"):
		return testOf(m[3]), m[3]
	}
	return "function", m[3]
}

func testOf(name string) string {
	switch {
	case strings.HasPrefix(name, "Test"):
		return "test"
	case strings.HasPrefix(name, "Benchmark"):
		return "benchmark"
	case strings.HasPrefix(name, "Fuzz"):
		return "fuzz test"
	case strings.HasPrefix(name, "Example"):
		return "example"
	}
	return "function"
}
