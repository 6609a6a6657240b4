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
	glob    string // "": any file
	noun    string // what the glob matches, in the singular
	explain bool   // say what the files do
}

// understand matches a prompt against the rules, the most specific one first.
func understand(prompt string) question {
	q := question{file: fileIn(prompt), dir: directoryIn(prompt)}
	q.noun, q.glob = kindIn(prompt)
	has := func(words string) bool {
		return regexp.MustCompile(`(?i)\b(?:` + words + `)\b`).MatchString(prompt)
	}
	q.explain = has("do|does|about|explain|describe|summarize|for")
	switch {
	case q.glob != "" || q.file == "" && has("longest|largest|biggest|how many|how long"):
		q.plan = rank
	case q.file != "":
		q.plan = read
	case has("project|repo|repository|codebase|overview") || has("what is this") && q.dir == "":
		q.plan = survey
	case q.dir != "" || has("list|ls|tree|look|here|files|directory|folder"):
		q.plan = list
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

// kindIn returns the kind of files that the prompt names and a glob for it.
func kindIn(prompt string) (noun, glob string) {
	if glob := regexp.MustCompile(`\*\.\w+`).FindString(prompt); glob != "" {
		return glob + " file", glob
	}
	globs := map[string]string{
		"go": "*.go", "markdown": "*.{md,markdown}", "python": "*.py", "javascript": "*.{js,jsx,mjs}", "typescript": "*.{ts,tsx}",
		"rust": "*.rs", "yaml": "*.{yaml,yml}", "json": "*.json",
	}
	if m := regexp.MustCompile(`(?i)\b(\w+) (?:source )?(?:files?|code)\b`).FindStringSubmatch(prompt); m != nil {
		if glob, ok := globs[strings.ToLower(m[1])]; ok {
			return m[1] + " file", glob
		}
	}
	return "file", ""
}
