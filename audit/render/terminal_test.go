package render

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestControlCharactersDoNotReachATerminal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain\ttext\n\n":                    "plain\ttext\n\n",
		Style{Color: true}.Bad("red") + "\n": "\x1b[31mred\x1b[0m\n",
		"\x1b]0;title\x07":                   `\x1b]0;title\a`,
		"\x1b]52;c;Y2xpcA==\x1b\\":           `\x1b]52;c;Y2xpcA==\x1b\`,
		"\x1b[8mhidden\x1b[2K\r":             `\x1b[8mhidden\x1b[2K\r`,
		"\u009b2J\u202eabc\xff":              `\u009b2J\u202eabc` + "\uFFFD",
		"\x1b[1;31m":                         `\x1b[1;31m`,
		"":                                   "",
	} {
		var b strings.Builder
		if n, err := Terminal(&b).Write([]byte(text)); n != len(text) || err != nil || b.String() != want {
			t.Errorf("%q became %q, %d, %v; want %q", text, b.String(), n, err, want)
		}
	}
	r, w := io.Pipe()
	_ = r.Close()
	if _, err := Terminal(w).Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a lost write returns %v", err)
	}
}
