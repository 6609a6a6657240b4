package content_test

import (
	"testing"

	"github.com/turnlog/turnlog/content"
)

func TestCutDoesNotSplitACharacter(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		n    int
		want string
	}{
		{"short", 5, "short"},
		{"longer", 4, "long"},
		{"für", 2, "f"},
		{"für", 3, "fü"},
		{"€", 2, ""},
		{"\x80\x80", 1, "\x80"},
		{"a\x80\x80\x80\x80\x80", 5, "a\x80\x80\x80\x80"},
	} {
		if got := content.Cut(tc.text, tc.n); got != tc.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", tc.text, tc.n, got, tc.want)
		}
	}
}

func TestClipMarksWhatItCut(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"für": "für", "fürs": "für…", "": ""} {
		if got := content.Clip(text, 4); got != want {
			t.Errorf("Clip(%q, 4) = %q, want %q", text, got, want)
		}
	}
}

func TestBoundaryIsTheNextCharacter(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text    string
		i, want int
	}{
		{"für", 1, 1}, {"für", 2, 3}, {"für", 4, 4}, {"f€", 2, 4}, {"\x80\x80\x80\x80\x80\x80", 1, 1},
	} {
		if got := content.Boundary(tc.text, tc.i); got != tc.want {
			t.Errorf("Boundary(%q, %d) = %d, want %d", tc.text, tc.i, got, tc.want)
		}
	}
}
