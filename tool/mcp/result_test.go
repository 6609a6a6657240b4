package mcp

import (
	"slices"
	"testing"
)

// A server's result can have many texts and structured content with many values. To compare all
// pairs would block a worker for hours, and a cancel would not stop it.
func TestAResultWithManyTextsIsConvertedAtOnce(t *testing.T) {
	t.Parallel()
	const many = 200_000
	r := texts(slices.Repeat([]string{"1"}, many)...)
	r.StructuredContent = map[string]any{"list": slices.Repeat([]any{"word"}, many)}
	out, err := result(r)
	if err != nil || len(out.Parts) != many+1 {
		t.Errorf("%d parts, %v; want %d", len(out.Parts), err, many+1)
	}
}
