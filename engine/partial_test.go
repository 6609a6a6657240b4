package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
)

// wordy is a model that streams words.
type wordy int

func (wordy) Name() string                     { return "wordy" }
func (wordy) Capabilities() model.Capabilities { return model.Capabilities{} }

func (n wordy) Call(_ context.Context, _ model.Request, emit func(content.Delta)) (model.Reply, error) {
	emit(content.Delta{Op: content.BeginPart, Kind: content.ReasoningKind})
	emit(content.Delta{Op: content.AppendPart, Kind: content.ReasoningKind, Text: "hm"})
	emit(content.Delta{Op: content.CommitPart, Kind: content.ReasoningKind})
	emit(content.Delta{Part: 1, Op: content.BeginPart, Kind: content.TextKind})
	for range n {
		emit(content.Delta{Part: 1, Op: content.AppendPart, Kind: content.TextKind, Text: "word "})
	}
	emit(content.Delta{Part: 1, Op: content.CommitPart, Kind: content.TextKind})
	return model.Reply{Items: []content.Item{content.NewItem(content.Assistant, content.TextPart(strings.Repeat("word ", int(n))))}, FinishReason: content.Completed}, nil
}

func TestWhatWasStreamedIsRepeatedNowAndThen(t *testing.T) {
	t.Parallel()
	const overhead = 128
	for _, n := range []int{1, 10, 1000, 40_000} {
		var text, again strings.Builder
		sent, repeats, times, longest, since := 0, 0, 0, 0, 0
		emit := func(ev events.Event) {
			switch ev := ev.(type) { //nolint:gochecksumtype // a model call sends no others
			case events.ContentDelta:
				sent += overhead + len(ev.Delta.Text)
				since += len(ev.Delta.Text)
				if ev.Delta.Part == 1 {
					text.WriteString(ev.Delta.Text)
				}
			case events.ContentRepeated:
				repeats += overhead + len(ev.Delta.Text)
				switch {
				case ev.Delta.Op == content.BeginPart && ev.Delta.Part == 0:
					again.Reset()
					times, longest, since = times+1, max(longest, since), 0
				case ev.Delta.Op == content.AppendPart && ev.Delta.Part == 1:
					if ev.After != 1+again.Len() {
						t.Fatalf("%d bytes come before a fragment after %d", again.Len(), ev.After-1)
					}
					if again.WriteString(ev.Delta.Text); !strings.HasPrefix(text.String(), again.String()) {
						t.Fatalf("repeated: %q", again.String())
					}
				}
			}
		}
		engine.NewRunner(engine.Config{}).CallModel(t.Context(), loop.CallModel{}, wordy(n), &engine.View{Catalog: catalog(t)}, emit)
		if repeats > sent/2+1000 {
			t.Errorf("%d words: %d bytes are repeated of %d", n, repeats, sent)
		}
		if n >= 1000 && (times < 10 || longest > text.Len()/4) {
			t.Errorf("%d words: repeated %d times; once after %d bytes of %d", n, times, longest, text.Len())
		}
	}
}
