package content

import "unicode/utf8"

// Cut returns the beginning of s, at most n bytes of it, without splitting a character.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
