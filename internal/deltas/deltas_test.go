package deltas_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/deltas"
)

func items() []content.Item {
	call := content.ToolCall{Name: "look", ProviderID: "c1", Input: json.RawMessage(`{"p":"é"}`)}
	return []content.Item{
		content.NewItem(content.Assistant, content.Part{Kind: content.ReasoningKind, Text: "hm"}, content.TextPart("äöü")),
		content.NewItem(content.Assistant, content.CallPart(call)),
	}
}

func collect(t *testing.T, chunk int) []content.Delta {
	t.Helper()
	var got []content.Delta
	if err := deltas.Stream(t.Context(), items(), chunk, func(d content.Delta) { got = append(got, d) }); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestWholePartsWithoutChunks(t *testing.T) {
	t.Parallel()
	whole := items()[1].Calls()[0]
	want := []content.Delta{
		{Part: 0, Op: content.BeginPart, Kind: content.ReasoningKind},
		{Part: 0, Op: content.AppendPart, Kind: content.ReasoningKind, Text: "hm"},
		{Part: 0, Op: content.CommitPart, Kind: content.ReasoningKind},
		{Part: 1, Op: content.BeginPart, Kind: content.TextKind},
		{Part: 1, Op: content.AppendPart, Kind: content.TextKind, Text: "äöü"},
		{Part: 1, Op: content.CommitPart, Kind: content.TextKind},
		{Part: 2, Op: content.BeginPart, Kind: content.ToolCallKind, Call: &content.ToolCall{Name: "look", ProviderID: "c1"}},
		{Part: 2, Op: content.CommitPart, Kind: content.ToolCallKind, Call: &whole},
	}
	if diff := cmp.Diff(want, collect(t, 0)); diff != "" {
		t.Errorf("deltas (-want +got):\n%s", diff)
	}
}

func TestChunksAreRunes(t *testing.T) {
	t.Parallel()
	var pieces []string
	for _, d := range collect(t, 2) {
		if d.Op == content.AppendPart {
			pieces = append(pieces, d.Text)
		}
	}
	want := []string{"hm", "äö", "ü", `{"`, `p"`, `:"`, `é"`, `}`}
	if diff := cmp.Diff(want, pieces); diff != "" {
		t.Errorf("pieces (-want +got):\n%s", diff)
	}
}

func TestNothingIsEmittedAfterCancel(t *testing.T) {
	t.Parallel()
	enough := errors.New("enough")
	for last := range len(collect(t, 2)) {
		ctx, cancel := context.WithCancelCause(t.Context())
		sent := 0
		err := deltas.Stream(ctx, items(), 2, func(content.Delta) {
			if sent++; sent == last {
				cancel(enough)
			}
		})
		if last == 0 {
			if err != nil {
				t.Errorf("Stream = %v", err)
			}
		} else if !errors.Is(err, enough) || sent != last {
			t.Errorf("Stream = %v after %d deltas, want %v after %d", err, sent, enough, last)
		}
		cancel(nil)
	}
}
