package demo

import "strings"

// planFinding looks for files by name or kind.
func planFinding(in intent, t turn) step {
	if len(t.rounds) == 0 {
		return step{calls: []call{findCall(in)}}
	}
	if t.rounds[0].at(0).isError {
		return failed("look for files", t.rounds[0])
	}
	d := listed(t.rounds[0].at(0))
	what := in.kind.title(len(d.entries))
	if in.file != "" {
		what = "files called " + base(in.file)
		if len(d.entries) == 1 {
			what = "file called " + base(in.file)
		}
	}
	if len(d.entries) == 0 {
		return step{answer: "There are no " + what + " in " + place(in.dir) + ".\n"}
	}
	var b strings.Builder
	b.WriteString(verbFor(len(d.entries)) + " " + thousands(len(d.entries)) + " " + what + " in " + place(in.dir))
	if d.partial {
		b.WriteString(", at least")
	}
	b.WriteString(":\n\n")
	shown := d.entries[:min(len(d.entries), maxRows)]
	for _, e := range shown {
		b.WriteString("  " + e.path + "\n")
	}
	b.WriteString(more(len(d.entries)-len(shown), "file"))
	return step{answer: b.String()}
}

func verbFor(n int) string {
	if n == 1 {
		return "There is"
	}
	return "There are"
}

func findCall(in intent) call {
	glob := in.kind.glob()
	if in.file != "" {
		glob = nameGlob(in.file)
	}
	return callOf(toolFind, arguments{Glob: glob, Path: in.dir, Type: "file"})
}

// nameGlob matches files of the same name; README finds readme.rst too.
func nameGlob(file string) string {
	name := base(file)
	stem, _, _ := strings.Cut(name, ".")
	if wellKnown(stem) == "" {
		return globQuote(name)
	}
	lower := strings.ToLower(stem)
	return "{" + strings.ToUpper(stem) + "," + lower + "," + strings.ToUpper(lower[:1]) + lower[1:] + "}*"
}

// globQuote replaces the characters that patterns give a meaning.
func globQuote(name string) string {
	return strings.NewReplacer("*", "?", "[", "?", "{", "?", "}", "?", ",", "?", `\`, "?").Replace(name)
}
