package client_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/session"
)

// approving is a verifier that passes everything, after something else the first time.
type approving struct {
	runs   int
	before func()
}

func (v *approving) Verify(context.Context, string) (bool, string, error) {
	if v.runs++; v.runs == 1 {
		v.before()
	}
	return true, "", nil
}

func TestAVerdictSurvivesAFullInbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.drive(engine.Config{})()
		s := w.start("s", "replies:\n  - text: done\n    repeat: true\n", false, nil)
		defer func() { _ = s.Close(t.Context()) }()
		js, err := jetstream.New(w.Conn)
		if err != nil {
			t.Fatal(err)
		}
		set := func(most int64, d jetstream.DiscardPolicy) {
			str, err := js.Stream(w.Ctx, "TURNLOG_INBOX")
			if err != nil {
				t.Error(err)
				return
			}
			cfg := str.CachedInfo().Config
			cfg.MaxMsgs, cfg.Discard = most, d
			if _, err := js.UpdateStream(w.Ctx, cfg); err != nil {
				t.Error(err)
			}
		}
		v := &approving{before: func() {
			set(1, jetstream.DiscardNew)
			time.AfterFunc(time.Minute, func() { set(-1, jetstream.DiscardOld) })
		}}
		ctx, cancel := context.WithTimeout(w.Ctx, 30*time.Minute)
		defer cancel()
		if res, err := s.RunTask(ctx, session.Task{Goal: "g", Verifier: v}); err != nil || res.Status != session.TaskDone || v.runs != 1 {
			t.Errorf("RunTask = %+v, %v, with %d verifications", res, err, v.runs)
		}
	})
}
