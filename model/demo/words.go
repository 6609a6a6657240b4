package demo

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// sentence is a prompt taken apart.
type sentence struct {
	lower  string   // the words in lower case, one space between them
	words  []string // as written, without the punctuation around them
	quoted []string // what stands in quotes or backticks, in order
}

func parseSentence(prompt string) sentence {
	var s sentence
	rest := strings.NewReplacer("“", `"`, "”", `"`, "’", "'", "‘", "'").Replace(prompt)
	var plain strings.Builder
	for rest != "" {
		before, quote, after, ok := cutQuote(rest)
		plain.WriteString(before)
		if !ok {
			break
		}
		s.quoted = append(s.quoted, quote)
		plain.WriteString(" " + quote + " ")
		rest = after
	}
	for word := range strings.FieldsSeq(plain.String()) {
		if w := trimWord(word); w != "" {
			s.words = append(s.words, w)
		}
	}
	s.lower = strings.ToLower(strings.Join(s.words, " "))
	return s
}

// cutQuote finds the first pair of quotes. A ' opens one only at the start of a
// word and closes it only at an end, so that don't and what's are none.
func cutQuote(s string) (before, quote, after string, ok bool) {
	for i, r := range s {
		if r != '"' && r != '`' && r != '\'' {
			continue
		}
		body := s[i+1:]
		end := closing(body, byte(r))
		if end <= 0 || r == '\'' && !atWordStart(s[:i]) {
			continue
		}
		return s[:i], body[:end], body[end+1:], true
	}
	return s, "", "", false
}

func atWordStart(before string) bool {
	return before == "" || strings.HasSuffix(before, " ") || strings.HasSuffix(before, "(")
}

func closing(body string, quote byte) int {
	for i := range len(body) {
		if body[i] != quote {
			continue
		}
		if quote != '\'' || i+1 == len(body) || !isLetter(body[i+1]) {
			return i
		}
	}
	return -1
}

func isLetter(c byte) bool { return unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c)) }

// trimWord strips punctuation, but not the dots of .go, .. and ./x, and not the
// brackets of a call: f().
func trimWord(word string) string {
	word = strings.TrimLeft(word, "([{<,;:!?\"'`")
	word = strings.TrimRight(word, ",;:!?\"'`")
	if word == "." || word == ".." || strings.HasSuffix(word, "/..") {
		return word
	}
	word = strings.TrimRight(word, ".,;:!?")
	if strings.HasSuffix(word, "()") {
		return word
	}
	return strings.TrimRight(word, ")]}>.,;:!?\"'`")
}

// has reports whether one of the phrases stands in the sentence, as whole words.
func (s sentence) has(phrases ...string) bool {
	return slices.ContainsFunc(phrases, func(p string) bool { return s.index(p) >= 0 })
}

// index returns the number of the word at which the phrase begins, or -1.
func (s sentence) index(phrase string) int {
	want := strings.Fields(phrase)
	for i := range s.words {
		if i+len(want) > len(s.words) {
			break
		}
		if slices.EqualFunc(s.words[i:i+len(want)], want, strings.EqualFold) {
			return i
		}
	}
	return -1
}

// starts reports whether the sentence begins with one of the words, please aside.
func (s sentence) starts(words ...string) bool {
	first := 0
	for first < len(s.words) && slices.Contains([]string{"please", "now", "then", "and", "can", "could", "you", "would"},
		strings.ToLower(s.words[first])) {
		first++
	}
	if first == len(s.words) {
		return false
	}
	return slices.Contains(words, strings.ToLower(s.words[first]))
}

// number returns the first number from 1 to most, or otherwise.
func (s sentence) number(most, otherwise int) int {
	names := []string{"", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"}
	for _, w := range s.words {
		n, err := strconv.Atoi(w)
		if err != nil {
			n = max(0, slices.Index(names, strings.ToLower(w)))
		}
		if n >= 1 && n <= most {
			return n
		}
	}
	return otherwise
}

// filePath returns the first word that looks like the path of a file, or "".
func (s sentence) filePath() string {
	for _, w := range s.words {
		if isFile(w) {
			return cleanPath(w)
		}
	}
	return ""
}

func isFile(w string) bool {
	if strings.ContainsAny(w, "*<>|") || strings.Contains(w, "://") {
		return false
	}
	base := path.Base(strings.ReplaceAll(w, `\`, "/"))
	if wellKnown(base) != "" {
		return true
	}
	dot := strings.LastIndexByte(base, '.')
	if dot < 0 || dot == len(base)-1 {
		return false
	}
	if dot == 0 {
		return len(base) > 1 && !isSuffix(base) && base != ".." // .gitignore, but not .go
	}
	return isSuffix(base[dot:]) || slices.Contains(otherSuffixes(), strings.ToLower(base[dot:]))
}

func isSuffix(ext string) bool {
	_, ok := findKind(func(k kind) bool { return slices.Contains(k.suffixes, strings.ToLower(ext)) })
	return ok
}

func otherSuffixes() []string {
	return []string{".mod", ".sum", ".lock", ".log", ".cfg", ".conf", ".ini", ".env", ".csv", ".tmpl", ".rst", ".golden", ".s", ".work"}
}

// wellKnown returns the usual name of a file that people call by its first part.
func wellKnown(word string) string {
	switch strings.ToLower(word) {
	case "readme":
		return "README.md"
	case "makefile":
		return "Makefile"
	case "dockerfile":
		return "Dockerfile"
	case "license", "licence":
		return "LICENSE"
	case "changelog":
		return "CHANGELOG.md"
	}
	return ""
}

// cleanPath writes the path with slashes and the usual name.
func cleanPath(w string) string {
	w = strings.ReplaceAll(w, `\`, "/")
	dir, base := path.Split(w)
	if name := wellKnown(base); name != "" && !strings.Contains(base, ".") {
		return dir + name
	}
	return path.Clean(w)
}

// directory returns the directory that the sentence speaks of, or "." for the
// root: "internal/fs", "in loop", "the cmd folder".
func (s sentence) directory() string {
	for i, w := range s.words {
		if isDirectory(w) {
			return cleanPath(w)
		}
		if i == 0 {
			continue
		}
		before, next := strings.ToLower(s.words[i-1]), ""
		if i+1 < len(s.words) {
			next = strings.ToLower(s.words[i+1])
		}
		if filler(strings.ToLower(w)) {
			continue
		}
		if i == 1 && len(s.words) == 2 && showWord(before) && plainName(w) {
			return cleanPath(w)
		}
		if folderWord(next) || folderWord(before) && plainName(w) {
			return cleanPath(w)
		}
		if before == "the" && i > 1 {
			before = strings.ToLower(s.words[i-2])
		}
		if inWord(before) && plainName(w) && goesOn(next) {
			return cleanPath(w)
		}
	}
	return "."
}

// goesOn reports whether a word may follow the name of a place.
func goesOn(next string) bool {
	return slices.Contains([]string{"", "and", "or", "are", "is", "have", "has", "do", "does", "that", "which", "by", "please", "then"}, next)
}

func isDirectory(w string) bool {
	if w == "and/or" || w == "either/or" || strings.Contains(w, "://") || strings.ContainsAny(w, "*<>|") {
		return false
	}
	return w == ".." || strings.HasPrefix(w, "../") || strings.ContainsAny(w, `/\`) && !isFile(w)
}

func showWord(w string) bool {
	return slices.Contains([]string{"list", "ls", "tree", "dir", "show", "open", "browse", "read", "cat"}, w)
}

func folderWord(w string) bool {
	return slices.Contains([]string{"directory", "folder", "dir", "subdirectory", "package"}, w)
}

func inWord(w string) bool {
	return slices.Contains([]string{"in", "under", "inside", "within", "below", "of"}, w)
}

// plainName reports whether w can be the name of a directory.
func plainName(w string) bool {
	return !isFile(w) && !strings.ContainsAny(w, "*?\"'`()") && !filler(strings.ToLower(w)) &&
		!folderWord(strings.ToLower(w)) && !inWord(strings.ToLower(w))
}

// filler reports whether w names no directory of its own.
func filler(w string) bool {
	switch w {
	case "the", "a", "an", "this", "that", "these", "those", "here", "there", "it", "my", "our", "your", "its", "all", "any",
		"each", "every", "which", "what", "where", "whole", "entire", "current", "working", "root", "top", "same", "is", "are",
		"project", "repo", "repository", "code", "codebase", "tree", "files", "file", "lines", "total", "detail", "general",
		"english", "short", "them", "me", "us", "and", "or", "directory", "directories", "folders", "everything", "todos", "source", "sources", "do":
		return true
	}
	_, isKind := findKind(func(k kind) bool { return slices.Contains(k.words, w) })
	return isKind
}
