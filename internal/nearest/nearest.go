// Package nearest finds the word that somebody meant who wrote another one.
//
// The one idea: a slip of the hand changes a character or two, so of the words that there
// are the one is meant from which the fewest changes lead to the one that was written.
package nearest

import (
	"fmt"
	"strings"
)

// most is how many characters a slip changes.
const most = 2

// To returns the word that was meant, or "" if none is near. Capitals, and the way in
// which words are put together, do not count: maxParallel is max_parallel.
func To(written string, words []string) string {
	best, least := "", most+1
	for _, w := range words {
		if n := changes(plain(written), plain(w)); n < least && n < min(len(w), len(written)) {
			best, least = w, n
		}
	}
	return best
}

// Hint is what a message says of the word that was meant: ": did you mean WORD?", or
// nothing.
func Hint(written string, words []string) string {
	if w := To(written, words); w != "" {
		return fmt.Sprintf(": did you mean %s?", w)
	}
	return ""
}

func plain(word string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(word))
}

// changes is how many characters of a have to be changed, added or taken away for b.
func changes(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := left
			if a[i] != b[j] {
				change++
			}
			left = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
