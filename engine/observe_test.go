package engine_test

import (
	"slices"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
)

type seenKinds []string

func (s *seenKinds) HandleEvent(o extension.Observed) {
	name := string(events.KindOf(o.Event))
	if d, ok := o.Event.(events.ContentDelta); ok {
		name += " " + string(d.Turn)
	}
	*s = append(*s, name)
}

func (s *seenKinds) OnItemAppended(_ content.SessionID, it content.Item) {
	*s = append(*s, "item "+it.Text())
}

type broken struct{}

func (broken) HandleEvent(extension.Observed) { panic("broken") }

func TestObserversSeeATurnAndNoDeltaAfterItsEnd(t *testing.T) {
	t.Parallel()
	var seen seenKinds
	o := engine.Observers{
		Session: "s", Events: []extension.Observer{broken{}, &seen}, Items: []extension.TranscriptObserver{&seen}, Log: zaptest.NewLogger(t),
	}
	s := loop.New("s")
	entry := func(evs ...events.Event) {
		e := events.Entry{Session: "s", Seq: s.Seq + 1, Events: evs}
		before := engine.See(s)
		s.Fold(e)
		o.Show(e, before, s)
	}
	delta := func(turn content.TurnID) { o.ShowLive(events.ContentDelta{Turn: turn}) }
	entry(events.RunStarted{Transcript: []content.Item{content.SystemText("be brief")}})
	entry(events.InputAccepted{Turn: "turn-1", Items: []content.Item{content.UserText("go")}}, events.TurnStarted{Turn: "turn-1"})
	delta("turn-1")
	entry(events.TurnFinished{Turn: "turn-1"})
	delta("turn-1")
	delta("turn-2") // its entry is on the way
	want := []string{
		"run_started", "input_accepted", "turn_started", "item go", "content_delta turn-1", "turn_finished", "content_delta turn-2",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("seen %q\nwant %q", seen, want)
	}
}
