package demo

import (
	"slices"
	"strings"
)

// planOverview lists the top level and counts, then reads the README and the
// file that says how the project is built.
func planOverview(in intent, t turn) step {
	if len(t.rounds) == 0 {
		calls := []call{listCall(in.dir, 1)}
		if slices.Contains(t.tools, toolCount) {
			calls = append(calls, callOf(toolCount, arguments{Path: in.dir, Exclude: vendored, Limit: namedFiles}))
		}
		return step{calls: calls}
	}
	if t.rounds[0].at(0).isError {
		return failed("list "+place(in.dir), t.rounds[0])
	}
	top := listed(t.rounds[0].at(0)).entries
	files := worthReading(top)
	if len(t.rounds) == 1 && len(files) > 0 && slices.Contains(t.tools, toolRead) {
		var calls []call
		for _, f := range files {
			calls = append(calls, readCall(f, 0, 100))
		}
		return step{calls: calls}
	}
	var b strings.Builder
	if len(t.rounds) > 1 {
		b.WriteString(introduction(files, t.rounds[1]))
	}
	b.WriteString(sentenceCase(place(in.dir)) + " holds:\n\n" + columns(top))
	var c counted
	if t.rounds[0].at(1).decode(&c) && c.Total.Files > 0 {
		b.WriteString("\nText in it: " + count(c.Total.Files, "file") + ", " + count(c.Total.Lines, "line") + " (" + size(c.Total.Bytes) + ", vendored code left out).\n\n")
		b.WriteString(groupTable(grouped(intent{dir: in.dir}, c.Files)))
	}
	return step{answer: b.String()}
}

// worthReading picks the README and the first manifest of a top level.
func worthReading(top []entry) []string {
	var files []string
	for _, e := range top {
		if !e.isDir && strings.HasPrefix(strings.ToLower(base(e.path)), "readme") {
			files = append(files, e.path)
			break
		}
	}
	for _, name := range []string{"go.mod", "package.json", "Cargo.toml", "pyproject.toml", "setup.py", "pom.xml", "build.gradle", "composer.json", "Gemfile"} {
		i := slices.IndexFunc(top, func(e entry) bool { return !e.isDir && base(e.path) == name })
		if i >= 0 {
			return append(files, top[i].path)
		}
	}
	return files
}

// introduction says what the README and the manifest say.
func introduction(files []string, r round) string {
	var b strings.Builder
	for i, f := range files {
		p, ok := r.at(i).page()
		if !ok {
			b.WriteString(wrap("I could not read "+f+": "+r.at(i).complaint(), 0) + "\n")
			continue
		}
		if strings.HasPrefix(strings.ToLower(base(f)), "readme") {
			s := summarizeMarkdown(p.text)
			if s.title != "" {
				b.WriteString(s.title + "\n")
			}
			if s.about != "" {
				b.WriteString(wrap(s.about, 2))
			}
			if s.title == "" && s.about == "" {
				b.WriteString(f + " says nothing in its first lines.\n")
			}
		} else if line := manifest(f, p.text); line != "" {
			b.WriteString("  (" + line + ")\n")
		}
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	return b.String()
}

// manifest names what is built.
func manifest(file, text string) string {
	if base(file) != "go.mod" {
		return base(file) + " says how it is built"
	}
	module, version := "", ""
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "module "); ok {
			module = name
		}
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "go "); ok {
			version = v
		}
	}
	return "Go module " + module + ", for Go " + version
}
