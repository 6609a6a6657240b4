package session

import (
	"strconv"
	"testing"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
)

// decideAll decides the commands and folds their events.
func decideAll(t *testing.T, s *loop.State, cs ...commands.Command) {
	t.Helper()
	for _, c := range cs {
		env := commands.Envelope{ID: strconv.FormatUint(s.Seq+1, 10), Session: s.Session, At: content.Time(s.Seq + 1), Command: c}
		evs, err := loop.Decide(s, env)
		if err != nil || len(evs) == 0 {
			t.Fatalf("%s: %d events, %v", commands.NameOf(c), len(evs), err)
		}
		s.Fold(events.Entry{Session: s.Session, Seq: s.Seq + 1, Cause: env.ID, At: env.At, Epoch: 1, Events: evs})
	}
}

func TestTurnsThatEndInOneEntryAreReturnedOneByOne(t *testing.T) {
	t.Parallel()
	s := loop.New("s")
	decideAll(t, s, commands.Claim{}, commands.OpenSession{Config: events.Config{SessionLimits: events.Limits{Requests: 1}}})
	st := newStepper(nil, s)
	decideAll(t, s,
		commands.SubmitInput{Items: []content.Item{content.UserText("go")}},
		commands.SubmitInput{Items: []content.Item{content.UserText("more")}, OnBusy: events.Queue},
		commands.ReportReply{
			ModelCall: commands.ModelCall{Turn: "turn-1", Round: 1, Attempt: 1}, Items: []content.Item{content.AssistantText("done")},
		})
	next := func() Step {
		t.Helper()
		st.collect(s)
		a := st.advance(s)
		if a.end == nil {
			return a.step
		}
		step, err := a.end.step()
		if err != nil {
			t.Fatal(err)
		}
		return step
	}
	first, ok := next().(*Finished)
	if !ok || first.Result.TurnID != "turn-1" || first.Result.Text() != "done" {
		t.Fatalf("the first step = %+v", first)
	}
	decideAll(t, s, commands.SetNextTurnCache{Cache: content.CacheRequest{Mode: "required"}})
	second, ok := next().(*Finished)
	if !ok || second.Result.TurnID != "turn-2" || second.Result.FinishReason != content.Limit {
		t.Fatalf("the second step = %+v", second)
	}
	if _, ok := next().(*AwaitingInput); !ok {
		t.Error("a turn is returned twice")
	}
}
