// Package nearest suggests the known word that is closest to a misspelled one, by edit
// distance.
package nearest

import (
	"fmt"
	"strings"
)

// most is the maximum edit distance of a suggestion.
const most = 2

// To returns the nearest word, or "" if none is near. Case and separators do not count:
// maxParallel equals max_parallel.
func To(written string, words []string) string {
	best, least := "", most+1
	for _, w := range words {
		if n := changes(plain(written), plain(w)); n < least && n < min(len(w), len(written)) {
			best, least = w, n
		}
	}
	return best
}

// Hint returns ": did you mean WORD?" for the nearest word, or "".
func Hint(written string, words []string) string {
	if w := To(written, words); w != "" {
		return fmt.Sprintf(": did you mean %s?", w)
	}
	return ""
}

func plain(word string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(word))
}

// changes returns the edit distance between a and b.
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
