package snapshot_test

import (
	"fmt"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
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
	var e snapshot.Encoder
	chunks := map[events.Hash][]byte{}
	raw, err := e.Encode(long(), func(h events.Hash, chunk []byte) error {
		chunks[h] = chunk
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		x, err := snapshot.Open(raw)
		if err == nil {
			_, _, err = x.State(chunks)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncode encodes a state of 100,000 items from scratch, and again with 500 more.
func BenchmarkEncode(b *testing.B) {
	discard := func(events.Hash, []byte) error { return nil }
	encode := func(b *testing.B, e *snapshot.Encoder, s *loop.State) {
		b.Helper()
		if raw, err := e.Encode(s, discard); err != nil || events.HashOf(raw).IsZero() {
			b.Fatal(err)
		}
	}
	s := long()
	b.Run("whole", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			encode(b, new(snapshot.Encoder), s)
		}
	})
	b.Run("next", func(b *testing.B) {
		b.ReportAllocs()
		before := *s
		before.Transcript = s.Transcript[:len(s.Transcript)-500]
		for b.Loop() {
			b.StopTimer()
			e := new(snapshot.Encoder)
			encode(b, e, &before)
			b.StartTimer()
			encode(b, e, s)
		}
	})
}
