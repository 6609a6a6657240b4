package agent_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/journaltest"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// A call in the background records its outcome while Next runs. When that append is the
// driver's last, a Next that waits for something else must return its error.
func TestNextReturnsTheErrorOfABackgroundCallsAppend(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			late := func(e events.Event) bool { r, ok := e.(events.ToolResultReceived); return ok && r.Late }
			faulty := journaltest.NewFaulty(journal.NewMemory(), func(_ journal.Head, e events.Entry) journaltest.Fault {
				if slices.ContainsFunc(e.Events, late) {
					return journaltest.LostAck
				}
				return journaltest.None
			})
			slow, err := tool.Func("slow", "Takes a second.", func(context.Context, struct{}) (string, error) {
				<-time.After(time.Second)
				return "done", nil
			}, tool.WithSpec(func(s *tool.Spec) { s.Route = content.Background }))
			if err != nil {
				t.Fatal(err)
			}
			m := modeltest.NewFake("fake", func(ctx context.Context, r model.Request) (model.Reply, error) {
				if r.Round == 1 {
					return modeltest.Calls(content.ToolCall{ID: "c1", Name: "slow"}), nil
				}
				<-ctx.Done()
				return model.Reply{}, context.Cause(ctx)
			})
			d := start(t, agent.Config{Model: m, Tools: []tool.Source{registry(t, slow)}, Journal: faulty, TaskManager: task.Async(task.AsyncConfig{})})
			stuck := time.AfterFunc(time.Hour, func() {
				t.Error("Next waits although its driver is dead")
				_ = d.Close(context.Background())
			})
			defer stuck.Stop()
			if _, err := d.RunText(t.Context(), "go"); !errors.Is(err, journal.ErrUnknown) {
				t.Errorf("RunText = %v, want ErrUnknown", err)
			}
		})
	}
}
