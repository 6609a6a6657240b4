package tool_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/turnlog/turnlog/tool"
)

func TestClipKeepsBothEnds(t *testing.T) {
	t.Parallel()
	all := "abcdefghijklmnopqrstuvwxyz"
	for size := 1; size <= len(all); size++ {
		for n := range len(all) + 1 {
			c := tool.NewClip(10)
			for rest := all[:n]; rest != ""; {
				k := min(size, len(rest))
				if wrote, err := c.Write([]byte(rest[:k])); wrote != k || err != nil {
					t.Fatalf("Write = %d, %v", wrote, err)
				}
				rest = rest[k:]
			}
			want, cut := all[:n], int64(0)
			if n > 10 {
				cut = int64(n - 10)
				want = fmt.Sprintf("abcde\n[… %d bytes were cut here …]\n%s", cut, all[n-5:n])
			}
			if got, gotCut := c.Text(); got != want || gotCut != cut {
				t.Fatalf("%d bytes in pieces of %d: %q, %d cut; want %q, %d", n, size, got, gotCut, want, cut)
			}
		}
	}
}

func TestClipCutsBetweenCharacters(t *testing.T) {
	t.Parallel()
	for limit := 2; limit < 30; limit++ {
		c := tool.NewClip(limit)
		_, _ = c.Write([]byte(strings.Repeat("é€🙂", 10)))
		got, _ := c.Text()
		if !utf8.ValidString(got) || strings.Contains(got, "\uFFFD") {
			t.Errorf("limit %d: %q", limit, got)
		}
	}
}

func FuzzClip(f *testing.F) {
	f.Add([]byte("h\xc3\xa9llo \xff\xfe world"), uint8(5), uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, limit, piece uint8) {
		c := tool.NewClip(int(limit))
		for rest := data; len(rest) > 0; {
			k := min(int(piece)+1, len(rest))
			_, _ = c.Write(rest[:k])
			rest = rest[k:]
		}
		got, cut := c.Text()
		if !utf8.ValidString(got) {
			t.Errorf("not valid: %q", got)
		}
		if cut == 0 && got != strings.ToValidUTF8(string(data), "\uFFFD") {
			t.Errorf("%q became %q", data, got)
		}
		if cut < 0 || cut > int64(len(data)) || cut == 0 && len(data) > max(2, int(limit)) {
			t.Errorf("%d of %d bytes cut with a limit of %d", cut, len(data), limit)
		}
	})
}
