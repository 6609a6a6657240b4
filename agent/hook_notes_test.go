package agent_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model/modeltest"
)

// talkative is a hook that always continues, with a reason.
type talkative struct{ err error }

func (talkative) Name() string { return "talkative" }
func (talkative) Points() []extension.Point {
	return []extension.Point{extension.SessionStart, extension.PreLlmCall}
}

func (h talkative) OnEvent(_ context.Context, e extension.HookEvent) (extension.Action, error) {
	return extension.Action{Reason: "seen at " + string(e.Point)}, h.err
}

func TestNotesOfHooksThatContinueAreRecorded(t *testing.T) {
	t.Parallel()
	log := journal.NewMemory()
	d := start(t, agent.Config{
		Model: replies(modeltest.Text("ok")), Journal: log,
		Hooks: []extension.Hook{extension.FailOpen(talkative{errors.New("its service is down")})},
	})
	if _, err := d.RunText(t.Context(), "go"); err != nil {
		t.Fatal(err)
	}
	var warned []string
	for _, w := range recorded[events.Warning](t, log, "s") {
		warned = append(warned, w.Message)
	}
	for i, at := range []string{"session_start", "pre_llm_call"} {
		got := recorded[events.HookDecided](t, log, "s")[i]
		want := []events.HookNote{{Hook: "talkative", Text: "seen at " + at}, {Hook: "talkative", Text: "its service is down"}}
		if got.Point != at || got.Action != "continue" || !slices.Equal(got.Notes, want) {
			t.Errorf("recorded is %+v", got)
		}
		if text := "talkative failed at " + at + ": seen at " + at + ": its service is down"; !slices.Contains(warned, text) {
			t.Errorf("no warning %q among %q", text, warned)
		}
	}
}
