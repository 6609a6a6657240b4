package snapshot_test

import (
	"fmt"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/loop/snapshot"
)

// long returns a session with 50,000 calls and their results in its transcript.
func long() *loop.State {
	s := loop.New("long")
	for i := range 50_000 {
		place := content.PlaceOf(i/10+1, i%10+1, 1)
		id := content.CallID(place)
		call := content.NewItem(content.Assistant,
			content.CallPart(content.ToolCall{ID: id, Place: place, Name: "read", Input: []byte(`{"path":"a.go"}`)}))
		result := content.NewItem(content.Tool,
			content.ResultPart(content.NewResult(id, "read", content.StatusOK, "package a // and a little more of it")))
		for _, it := range []content.Item{call, result} {
			s.Appended++
			it.ID, it.CreatedAt = content.ItemID(fmt.Sprint("i", s.Appended)), content.Time(1_700_000_000_000_000_000+i)
			s.Transcript = append(s.Transcript, it)
		}
	}
	return s
}

func BenchmarkDecode(b *testing.B) {
	raw, err := snapshot.Encode(long())
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := snapshot.Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	s := long()
	b.ReportAllocs()
	for b.Loop() {
		raw, err := snapshot.Encode(s)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(raw)))
	}
}
