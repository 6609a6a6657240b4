package jetstream

import (
	"bytes"
	"strings"
	"testing"
)

func TestBlobsAreKeptForAll(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		data := noise(200<<10, 7)
		id, err := c.Blobs().Put(t.Context(), data)
		must(t, err)
		got, ok, err := openCell(t, c.nc).Blobs().Get(t.Context(), id)
		must(t, err)
		if !ok || !bytes.Equal(got, data) {
			t.Errorf("Get = %d bytes, %v", len(got), ok)
		}
		for _, none := range []string{"", "x", "../x", strings.Repeat("0", 64)} {
			if _, ok, err := c.Blobs().Get(t.Context(), none); ok || err != nil {
				t.Errorf("Get(%q) = %v, %v", none, ok, err)
			}
		}
	})
}
