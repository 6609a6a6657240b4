package talk

import (
	"testing"
)

func TestTheTypeOfAFileIsDetected(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ data, want string }{
		"a.png": {"\x89PNG\x0D\x0A\x1A\x0Axx", "image/png"},
		"b":     {"\x89PNG\x0D\x0A\x1A\x0Axx", "image/png"},
		"c.pdf": {"%PDF-1.7 x", "application/pdf"},
		"d.txt": {"words", "text/plain"},
		"e":     {"words", "text/plain"},
		"f.svg": {"<svg></svg>", "text/plain"},
		"g.htm": {"<html><p>x", "text/html"},
		"h.jso": {`{"a":1}`, "text/plain"},
		"i.png": {"no image", "text/plain"},
		"j.txt": {"\xff\xfe\x00\x01", "application/octet-stream"},
		"k":     {"\x00\x01\x02", "application/octet-stream"},
		"l.txt": {"cut within a character \xe2\x82", "text/plain"},
	} {
		if got := mimeOf(name, []byte(tc.data)); got != tc.want {
			t.Errorf("%s is %s, want %s", name, got, tc.want)
		}
	}
}
