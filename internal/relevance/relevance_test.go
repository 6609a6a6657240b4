package relevance_test

import (
	"testing"

	"github.com/turnlog/turnlog/internal/relevance"
)

func TestTextsShareSignificantWords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"Fix the parser", "the lexer and the parser", 1},
		{"parsing files", "parse a file", 2},
		{"readFile", "file-read", 2},
		{"Please use it for all of them", "for all of the use", 0},
		{"Größe ändern", "die größe", 1},
		{"parser parser parser", "parser", 1},
		{"", "anything", 0},
	} {
		a, b := relevance.Of(tt.a), relevance.Of(tt.b)
		if got := a.Shared(b); got != tt.want || b.Shared(a) != got {
			t.Errorf("%q and %q share %d words (%v, %v), want %d", tt.a, tt.b, got, a, b, tt.want)
		}
	}
}
