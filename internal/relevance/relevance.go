// Package relevance says how much two texts have to do with each other, by the
// words that they share. It is a measure for choosing a few of many, not for
// understanding: no index, no model, the same answer everywhere.
package relevance

import (
	"strings"
	"unicode"
)

// minLength is how long a word has to be to say something about a text.
const minLength = 3

// Words are what a text is about: its words in lower case, without the short ones,
// those that any text has, and what tells one form of a word from another.
type Words map[string]struct{}

// Of returns the words of the texts.
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

// Shared is how many words both have.
func (w Words) Shared(other Words) int {
	n := 0
	for word := range w {
		if _, ok := other[word]; ok {
			n++
		}
	}
	return n
}

// split parts words that are written as one: readFile is read File.
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

// stem takes the endings off that English words of one meaning differ in.
func stem(word string) string {
	const kept = 3 // letters that have to be left
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
