package demo

import (
	"slices"
	"strings"
)

// kind is a sort of files, told by their names. The zero kind is any file.
type kind struct {
	name     string   // as a person says it: Go, Markdown
	words    []string // what it is called in a question, in lower case
	suffixes []string // of its files' names
}

// kinds lists the sorts of files that questions may be about.
func kinds() []kind {
	return []kind{
		{"Go test", []string{"go tests", "go test"}, []string{"_test.go"}},
		{"Go", []string{"go", "golang"}, []string{".go"}},
		{"Markdown", []string{"markdown", "md"}, []string{".md", ".markdown"}},
		{"Python", []string{"python", "py"}, []string{".py"}},
		{"TypeScript", []string{"typescript", "ts", "tsx"}, []string{".ts", ".tsx"}},
		{"JavaScript", []string{"javascript", "js", "jsx"}, []string{".js", ".jsx", ".mjs", ".cjs"}},
		{"Rust", []string{"rust", "rs"}, []string{".rs"}},
		{"Java", []string{"java"}, []string{".java"}},
		{"Kotlin", []string{"kotlin", "kt"}, []string{".kt", ".kts"}},
		{"C++", []string{"c++", "cpp"}, []string{".cc", ".cpp", ".cxx", ".hh", ".hpp", ".h"}},
		{"C#", []string{"c#", "csharp", "cs"}, []string{".cs"}},
		{"C", []string{"c"}, []string{".c", ".h"}},
		{"Ruby", []string{"ruby", "rb"}, []string{".rb"}},
		{"PHP", []string{"php"}, []string{".php"}},
		{"Swift", []string{"swift"}, []string{".swift"}},
		{"Scala", []string{"scala"}, []string{".scala"}},
		{"Lua", []string{"lua"}, []string{".lua"}},
		{"shell", []string{"shell", "bash", "sh"}, []string{".sh", ".bash"}},
		{"SQL", []string{"sql"}, []string{".sql"}},
		{"YAML", []string{"yaml", "yml"}, []string{".yaml", ".yml"}},
		{"JSON", []string{"json"}, []string{".json"}},
		{"TOML", []string{"toml"}, []string{".toml"}},
		{"XML", []string{"xml"}, []string{".xml"}},
		{"HTML", []string{"html"}, []string{".html", ".htm"}},
		{"CSS", []string{"css"}, []string{".css", ".scss"}},
		{"protobuf", []string{"protobuf", "proto"}, []string{".proto"}},
		{"text", []string{"text", "txt"}, []string{".txt"}},
	}
}

// kindOf finds the sort of files that the words name: "Go files", "*.py",
// ".md", "markdown". A word that is also an English one (go, c, text, shell) has
// to stand before files, code, lines, sources, tests or the like, or be written
// as a name.
func kindOf(words []string) kind {
	for i, w := range words {
		if ext, ok := extension(w); ok {
			return kindBySuffix(ext)
		}
		next := ""
		if i+1 < len(words) {
			next = strings.ToLower(words[i+1])
		}
		if i == 0 {
			w = strings.ToLower(w) // the capital says nothing there: Go through all files
		}
		if k, ok := kindByWord(w, next); ok {
			return k
		}
	}
	return kind{}
}

// extension reads *.go and .go; dot files such as .gitignore are none.
func extension(word string) (string, bool) {
	ext := strings.TrimPrefix(word, "*")
	if len(ext) < 2 || ext[0] != '.' || strings.ContainsAny(ext[1:], "./") {
		return "", false
	}
	if strings.HasPrefix(word, "*") {
		return strings.ToLower(ext), true
	}
	_, known := findKind(func(k kind) bool { return slices.Contains(k.suffixes, ext) })
	return ext, known
}

func kindBySuffix(ext string) kind {
	if k, ok := findKind(func(k kind) bool { return slices.Contains(k.suffixes, ext) }); ok {
		return k
	}
	return kind{name: ext, suffixes: []string{ext}}
}

func kindByWord(word, next string) (kind, bool) {
	lower := strings.ToLower(word)
	if ambiguous(lower) && word == lower && !aboutFiles(next) {
		return kind{}, false
	}
	if strings.HasPrefix(next, "test") {
		if k, ok := findKind(func(k kind) bool { return slices.Contains(k.words, lower+" test") }); ok {
			return k, true
		}
	}
	return findKind(func(k kind) bool { return slices.Contains(k.words, lower) })
}

func findKind(fits func(kind) bool) (kind, bool) {
	all := kinds()
	if i := slices.IndexFunc(all, fits); i >= 0 {
		return all[i], true
	}
	return kind{}, false
}

func ambiguous(word string) bool {
	switch word {
	case "go", "c", "cs", "text", "shell", "swift", "ts", "rs", "md", "rust", "sh":
		return true
	}
	return false
}

func aboutFiles(word string) bool {
	switch strings.Trim(word, ".,;:?!") {
	case "file", "files", "code", "lines", "line", "source", "sources", "test", "tests", "script", "scripts",
		"document", "documents", "docs", "package", "packages", "module", "modules", "program", "programs":
		return true
	}
	return false
}

// title names n files of the kind.
func (k kind) title(n int) string {
	words := "files"
	if n == 1 {
		words = "file"
	}
	if k.name == "" {
		return words
	}
	return k.name + " " + words
}
