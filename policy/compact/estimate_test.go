package compact_test

import (
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/policy/compact"
)

func TestSizesCountWhatAModelSees(t *testing.T) {
	t.Parallel()
	part := func(p content.Part) content.Item { return content.NewItem(content.User, p) }
	unknown := content.Part{Kind: content.MediaKind, Media: &content.Media{Bytes: make([]byte, 1<<20)}}
	photo := content.FilePart("a.png", "image/png", []byte("pixels"))
	blob := func(mime string, size int64) content.Item {
		return part(content.BlobPart("a", mime, strings.Repeat("a", 64), size))
	}
	for name, tc := range map[string]struct {
		item content.Item
		want int64
	}{
		"nothing":   {content.Item{}, 4},
		"text":      {content.UserText("12345"), 4 + 2},
		"umlauts":   {content.UserText("äöü"), 4 + 2},
		"data":      {part(content.StructuredPart([]byte(`{"a":1}`))), 4 + 2},
		"image":     {part(photo), 4 + 1600},
		"stored":    {blob("image/jpeg", 3<<20), 4 + 1600},
		"notes":     {blob("text/markdown; charset=utf-8", 4000), 4 + 1000},
		"page":      {blob("application/pdf", 20_000), 4 + 1500},
		"book":      {blob("application/pdf", 1<<20), 4 + 21*1500},
		"library":   {blob("application/pdf", 30<<20), 4 + 100*1500},
		"song":      {blob("audio/mpeg", 1_000_000), 4 + 2000},
		"not shown": {blob("application/pdf", 33<<20), 4 + 50},
		"no type":   {part(unknown), 4 + 500},
		"reasoning": {part(content.Part{Kind: content.ReasoningKind, Text: "1234", Reasoning: &content.Reasoning{Signature: []byte("1234"), Encrypted: []byte("1234")}}), 4 + 3},
		"call":      {part(content.CallPart(content.ToolCall{ID: "long-id", Name: "read", Input: []byte(`{"p":1}`)})), 4 + 3},
		"result":    {part(content.ResultPart(content.ToolResult{Output: []content.Part{content.TextPart("1234"), photo}})), 4 + 1 + 1600},
		"metadata":  {content.Item{Metadata: content.Metadata{}.With("key", strings.Repeat("x", 99))}, 4},
	} {
		if got := mutate(t, compactor(t, compact.KeepRecent{Items: 9}), []content.Item{tc.item}).OldTokens; got != tc.want {
			t.Errorf("%s: %d tokens, want %d", name, got, tc.want)
		}
	}
}

func TestSizesStartFromTheModelsCount(t *testing.T) {
	t.Parallel()
	c := compactor(t, compact.KeepRecent{Items: 2})
	items := sized(talk("s u a u a u a u"))
	bill := func(i int, in, out int64) { items[i].Usage = &content.Usage{InputTokens: in, OutputTokens: out} }
	expect := func(old, left int64) {
		t.Helper()
		m := mutate(t, c, items)
		if m.OldTokens != old || m.NewTokens != left {
			t.Errorf("%d of %d tokens, want %d of %d", m.NewTokens, m.OldTokens, left, old)
		}
	}
	expect(80, 40) // s u a u are left
	bill(4, 900, 50)
	expect(980, 940) // and three more; what is not in the transcript is not saved
	bill(6, 30, 5)
	expect(45, 23) // estimates are too high: half is saved
	bill(6, 0, 0)
	expect(980, 940) // no usage is no count
}

func TestUsageFromBeforeACompactionIsNotTrusted(t *testing.T) {
	t.Parallel()
	c := compactor(t, compact.KeepRecent{Items: 2})
	items := sized(talk("u a u a u a u"))
	items[5].Usage = &content.Usage{InputTokens: 1000}
	first := mutate(t, c, items)
	if first.NewTokens != 970 || len(first.Items) != 3 {
		t.Fatalf("%d tokens in %s", first.NewTokens, short(first.Items))
	}
	reply := sized(talk("a u"))
	if m := mutate(t, c, append(first.Items, reply...)); m.OldTokens != 970+20 {
		t.Errorf("%d tokens before the next reply is billed", m.OldTokens)
	}
	reply[0].Usage = &content.Usage{InputTokens: 300}
	if m := mutate(t, c, append(first.Items, reply...)); m.OldTokens != 300+10 {
		t.Errorf("%d tokens after it", m.OldTokens)
	}
}

func TestAfterAProvidersCompactionOnlyTheRestCounts(t *testing.T) {
	t.Parallel()
	items := sized(talk("s u a u a u"))
	items[4].FinishReason, items[4].Usage = content.Compaction, &content.Usage{InputTokens: 9000}
	if m := mutate(t, compactor(t, compact.DropReasoning{}), items); m.OldTokens != 30 {
		t.Errorf("%d tokens", m.OldTokens)
	}
}
