// Package relevance measures how similar two texts are by the words that they share.
// It needs no index and no model, and is deterministic.
package relevance

import (
	"strings"
	"unicode"
)

// minLength is the minimum length of a significant word.
const minLength = 3

// Words is the set of significant words of a text: lowercase stems of its words,
// without short and common ones.
type Words map[string]struct{}

// Of returns the significant words of the texts.
func Of(texts ...string) Words {
	w := Words{}
	for _, text := range texts {
		for word := range strings.FieldsFuncSeq(split(text), isBreak) {
			word = strings.ToLower(word)
			if len([]rune(word)) >= minLength && !common(word) {
				w[stem(word)] = struct{}{}
			}
		}
	}
	return w
}

// Shared returns the number of words in both sets.
func (w Words) Shared(other Words) int {
	n := 0
	for word := range w {
		if _, ok := other[word]; ok {
			n++
		}
	}
	return n
}

// split separates the words of camel case: readFile becomes read File.
func split(text string) string {
	var b strings.Builder
	var before rune
	for _, r := range text {
		if unicode.IsUpper(r) && unicode.IsLower(before) {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
		before = r
	}
	return b.String()
}

func isBreak(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// stem removes the ending of an English word.
func stem(word string) string {
	const kept = 3 // minimum length of a stem
	for _, ending := range []string{"ing", "ed", "es", "s"} {
		if short, ok := strings.CutSuffix(word, ending); ok && len(short) >= kept {
			return short
		}
	}
	return strings.TrimSuffix(word, "e")
}

func common(word string) bool {
	switch word {
	case "the", "and", "for", "are", "was", "not", "but", "with", "that", "this", "these", "those", "from", "have",
		"has", "had", "will", "can", "all", "any", "its", "our", "you", "your", "into", "than", "then", "when", "which",
		"who", "what", "how", "why", "please", "should", "would", "could", "there", "here", "also", "make", "use":
		return true
	}
	return false
}
