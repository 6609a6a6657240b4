package demo

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
)

// question is a prompt as far as the rules understand it.
type question struct {
	plan    func(question, [][]content.ToolResult) step
	dir     string // where to look; "": the working directory
	file    string
	name    string // what to locate or search for
	glob    string // "": any file
	noun    string // what the glob matches, in the singular
	explain bool   // say what the files do
	bytes   bool   // rank by size instead of lines
}

// understand matches a prompt against the rules, the most specific one first.
func understand(prompt string) question {
	q := question{file: fileIn(prompt), dir: directoryIn(prompt), name: nameIn(prompt)}
	q.noun, q.glob = kindIn(prompt)
	has := func(words string) bool {
		return regexp.MustCompile(`(?i)\b(?:` + words + `)\b`).MatchString(prompt)
	}
	q.explain = has("do|does|about|explain|describe|summarize|for")
	q.bytes = has("largest|biggest") && !has("lines")
	where := has("where|where's|find|locate")
	switch {
	case has("longest|largest|biggest"):
		q.plan = rank
	case has("how many|how much|how long|how big|count"):
		q.plan = count
	case q.name != "" && has("defined|declared|implemented|definition of"):
		q.plan = locate
	case q.name != "" && has("search|grep|mentions?|contains?|uses|calls|used|called"):
		q.plan = search
	case q.file != "" && where, q.file == "" && q.glob != "":
		q.plan = find
	case q.file != "":
		q.plan = read
	case q.name != "" && where:
		q.plan = locate
	case has("project|repo|repository|codebase|overview") || has("what is this") && q.dir == "":
		q.plan = survey
	case q.dir != "" || has("list|ls|tree|look|here|files|directory|folder"):
		q.plan = list
	case has("hi|hello|hey|thanks|thank you|help|who are you|what can you do"):
		q.plan = greet
	default:
		q.plan = decline
	}
	return q
}

// fileIn returns the first word that looks like the path of a file, or "".
func fileIn(prompt string) string {
	for word := range strings.FieldsSeq(prompt) {
		word = path.Clean(strings.Trim(word, "\"'`?!,;:()"))
		switch word = strings.TrimSuffix(word, "."); {
		case strings.EqualFold(word, "readme"):
			return "README.md"
		case regexp.MustCompile(`^([\w.-]+/)*([\w-]*\.[a-z]\w*|Makefile|Dockerfile|LICENSE)$`).MatchString(word):
			return word
		}
	}
	return ""
}

// directoryIn returns the directory that the prompt names, or "".
func directoryIn(prompt string) string {
	word := `([\w./-]*[\w/])`
	for _, pattern := range []string{
		word + ` (?:directory|folder)\b`,
		`\b(?:in|inside|under|of|list|ls|tree|explain|describe|read|show)(?: the)? ` + word,
	} {
		for _, m := range regexp.MustCompile(`(?i)`+pattern).FindAllStringSubmatch(prompt, -1) {
			if dir := path.Clean(m[1]); dir != fileIn(prompt) && !isFiller(dir) {
				return dir
			}
		}
	}
	return ""
}

func isFiller(word string) bool {
	return slices.Contains(strings.Fields(`. a all an any code codebase current directory each every everything file files
		folder go here it its line lines markdown me my our project python repo repository root that the them these this
		those total what`), strings.ToLower(word))
}

// nameIn returns what is quoted in the prompt, or the word after a phrase such as
// "where is" or "search for".
func nameIn(prompt string) string {
	if m := regexp.MustCompile("[\"`“]([^\"`”]+)[\"`”]").FindStringSubmatch(prompt); m != nil {
		return strings.TrimSuffix(m[1], "()")
	}
	m := regexp.MustCompile(`(?i)\b(?:where(?:'s| is| are)|definition of|(?:search|grep|look)(?: for)?|mentions?|contains?|uses|calls)` +
		`(?: (?:the|function|func|method|type|struct|interface|constant|variable|word))* ([\w.]*\w)`).FindStringSubmatch(prompt)
	if m == nil || isFiller(m[1]) {
		return ""
	}
	return m[1]
}

// kindIn returns the kind of files that the prompt names and a glob for it.
func kindIn(prompt string) (noun, glob string) {
	if glob := regexp.MustCompile(`\*\.\w+`).FindString(prompt); glob != "" {
		return glob + " file", glob
	}
	for _, k := range [][3]string{
		{"go|golang", "Go file", "*.go"},
		{"markdown|md", "Markdown file", "*.{md,markdown}"},
		{"python|py", "Python file", "*.py"},
		{"javascript|js", "JavaScript file", "*.{js,jsx,mjs}"},
		{"typescript|ts", "TypeScript file", "*.{ts,tsx}"},
		{"rust|rs", "Rust file", "*.rs"},
		{"yaml|yml", "YAML file", "*.{yaml,yml}"},
		{"json", "JSON file", "*.json"},
	} {
		files, code := `(?:`+k[0]+`) (?:source )?(?:files?|code)`, `(?:lines|code) (?:of|in) (?:`+k[0]+`)`
		if regexp.MustCompile(`(?i)\b(?:` + files + `|` + code + `)\b`).MatchString(prompt) {
			return k[1], k[2]
		}
	}
	return "file", ""
}
