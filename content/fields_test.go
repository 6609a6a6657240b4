package content

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/internal/wire"
)

// sample is an item with all fields set.
func sample() Item {
	result := NewResult("c2", "read", StatusError, "no such file")
	result.Code, result.Metadata = "failed", Metadata{}.With("k", "v")
	return Item{
		ID: "i1", Kind: Assistant, CreatedAt: 1_700_000_000_123_456_789, FinishReason: ToolCalls, Metadata: Metadata{}.With("m", -1),
		Usage: &Usage{
			InputTokens: 1, OutputTokens: 200, ReasoningTokens: 70_000, CacheReadTokens: 1 << 40, CacheWriteTokens: 5, CostMicros: 6, Currency: "EUR",
		},
		Parts: []Part{
			{Kind: TextKind, Text: "t", Name: "n", Data: json.RawMessage(`{}`), Metadata: Metadata{}.With("p", nil)},
			{Kind: MediaKind, Media: &Media{Modality: "image", MIME: "image/png", Bytes: []byte{1}, URI: "blob:x"}},
			{Kind: ReasoningKind, Reasoning: &Reasoning{Signature: []byte{0, 255}, Encrypted: []byte{}, Redacted: true}},
			CallPart(ToolCall{ID: "c1", Place: "t1-r1-c1", Name: "read", Input: json.RawMessage(`{"n":1}`), ProviderID: "p"}),
			ResultPart(result),
		},
	}
}

// write encodes an item as part of other content.
func write(t *testing.T, it Item) []byte {
	t.Helper()
	b, err := wire.Encode(64, func(e *msgpack.Encoder) error { return e.Encode(it) })
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// writeByTags encodes an item by its struct tags.
func writeByTags(t *testing.T, it Item) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	enc.UseCompactInts(true)
	type tagged Item
	if err := enc.Encode(tagged(it)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestItemsAreWrittenAsTheirTagsSay(t *testing.T) {
	t.Parallel()
	if unset := wire.Unset(sample()); len(unset) > 0 {
		t.Errorf("the sample does not show %v", unset)
	}
	long := sample()
	long.Parts = make([]Part, 40)
	for _, it := range []Item{{}, {Parts: []Part{}}, {Parts: []Part{{Data: []byte{}}}, Metadata: Metadata{{}}}, sample(), long} {
		if got, want := write(t, it), writeByTags(t, it); !bytes.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

// Other encoders, such as those of digests, keep their settings and write full-length
// integers.
func TestItemsInOtherHandsAreWrittenAsBefore(t *testing.T) {
	t.Parallel()
	type tagged Item
	want, err := msgpack.Marshal(tagged(sample()))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := msgpack.Marshal(sample()); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got  %q, %v\nwant %q", got, err, want)
	}
}

// Each byte of an item is replaced by bytes that start other values.
func TestItemsAreReadAsTheirTagsSay(t *testing.T) {
	t.Parallel()
	raw := write(t, sample())
	for i, was := range raw {
		for _, c := range []byte("\x00\x80\x81\x90\x91\xa0\xa1\xc0\xc3\xc4\xccabcdikmnprstu") {
			raw[i] = c
			compareItems(t, raw)
		}
		raw[i] = was
	}
}

func FuzzItem(f *testing.F) {
	f.Add([]byte("\x82\xa1k\xa4user\xa1p\x91\x82\xa1k\xa4text\xa1t\xa2hi"))
	f.Add([]byte("\x82\xa1p\x92\x81\xa1t\xa1x\x80\xa1p\x91\x81\xa1n\xa1y"))
	f.Fuzz(compareItems)
}

func compareItems(t *testing.T, b []byte) {
	if wire.Check(b, 32) != nil {
		return
	}
	type tagged Item
	var got Item
	var want tagged
	wantErr := msgpack.NewDecoder(bytes.NewReader(b)).Decode(&want)
	err := wire.Decode(b, 32, func(d *msgpack.Decoder) error { return d.Decode(&got) })
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%q: %v, by the tags %v", b, err, wantErr)
	}
	if err == nil && !reflect.DeepEqual(got, Item(want)) {
		t.Fatalf("%q:\n got %+v\nwant %+v", b, got, want)
	}
}
