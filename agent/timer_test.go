package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/session"
)

// A timer fires early if the clock is set back.
func TestAnEarlyTimerIsArmedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := modeltest.NewFake("m", func(_ context.Context, r model.Request) (model.Reply, error) {
			if r.Attempt == 1 {
				return model.Reply{}, &model.Error{Class: content.ClassServer, Message: "no"}
			}
			return modeltest.Text("done"), nil
		})
		a, err := New(Config{Model: m, Retry: events.Retry{Backoff: time.Hour, MaxBackoff: time.Hour, ModelPatience: 2 * time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		d, err := a.drive(t.Context(), SessionConfig{ID: "s"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close(context.WithoutCancel(t.Context())) }()
		early := 0
		d.performer = engine.NewPerformer(t.Context(), d.perform, func(e loop.ArmTimer) time.Time {
			if early < 3 {
				early++
				return time.Now()
			}
			return due(e)
		}, d.panicked)
		res, err := session.New(d, session.Config{}).RunText(t.Context(), "go")
		if err != nil || res.Response != "done" || early != 3 {
			t.Errorf("Run = %+v, %v after %d timers that came early", res, err, early)
		}
	})
}
