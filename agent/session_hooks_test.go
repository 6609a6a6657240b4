package agent_test

import (
	"context"
	"slices"
	"testing"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model/modeltest"
)

// lifecycle is a hook at the start and the end of sessions.
type lifecycle struct{ action extension.Action }

func (lifecycle) Name() string { return "lifecycle" }
func (lifecycle) Points() []extension.Point {
	return []extension.Point{extension.SessionStart, extension.SessionEnd}
}

func (h lifecycle) OnEvent(context.Context, extension.HookEvent) (extension.Action, error) {
	return h.action, nil
}

func TestHooksOfTheSessionsStartAndEndAreRecorded(t *testing.T) {
	t.Parallel()
	log := journal.NewMemory()
	c := agent.Config{Model: replies(modeltest.Text("x")), Journal: log, Hooks: []extension.Hook{lifecycle{extension.Action{Kind: extension.Skip, Reason: "no"}}}}
	for range 2 {
		d := start(t, c)
		if err := d.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for rec, err := range log.Read(t.Context(), "s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range rec.Entry.Events {
			if e, ok := ev.(events.HookDecided); ok {
				got = append(got, e.Point+" "+e.Hook+" "+e.Action)
			}
		}
	}
	begin, end := "session_start lifecycle skip", "session_end lifecycle skip"
	if !slices.Equal(got, []string{begin, end, begin, end}) {
		t.Errorf("recorded are %v", got)
	}
}
