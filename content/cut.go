package content

import "unicode/utf8"

// Cut returns at most the first n bytes of s without splitting a character. Bytes that are not
// text are cut anywhere.
func Cut[T ~string | ~[]byte](s T, n int) T {
	if len(s) <= n {
		return s
	}
	for i := n; i >= 0 && i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:n]
}

// Clip returns s, cut as Cut does and with an ellipsis if it has more than n bytes.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Cut(s, n) + "…"
}

// Boundary returns where the next character of s begins, at i or after it. Bytes that are not text
// may have no boundary, so it searches only the length of one character.
func Boundary[T ~string | ~[]byte](s T, i int) int {
	for n := i; n < len(s) && n < i+utf8.UTFMax; n++ {
		if utf8.RuneStart(s[n]) {
			return n
		}
	}
	if i+utf8.UTFMax > len(s) {
		return len(s)
	}
	return i
}
