package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

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
		limit := func(messages int, discard string) {
			info, err := w.Conn.RequestWithContext(w.Ctx, "$JS.API.STREAM.INFO.TURNLOG_INBOX", nil)
			if err != nil {
				t.Error(err)
				return
			}
			var stream struct {
				Config map[string]any `json:"config"`
			}
			if err := json.Unmarshal(info.Data, &stream); err != nil {
				t.Error(err)
			}
			stream.Config["max_msgs"], stream.Config["discard"] = messages, discard
			changed, err := json.Marshal(stream.Config)
			if err != nil {
				t.Error(err)
			}
			if answer, err := w.Conn.RequestWithContext(w.Ctx, "$JS.API.STREAM.UPDATE.TURNLOG_INBOX", changed); err != nil || bytes.Contains(answer.Data, []byte(`"error"`)) {
				t.Errorf("update: %v, %s", err, answer.Data)
			}
		}
		v := &approving{before: func() {
			limit(1, "new")
			time.AfterFunc(time.Minute, func() { limit(-1, "old") })
		}}
		ctx, cancel := context.WithTimeout(w.Ctx, 30*time.Minute)
		defer cancel()
		if res, err := s.RunTask(ctx, session.Task{Goal: "g", Verifier: v}); err != nil || res.Status != session.TaskDone || v.runs != 1 {
			t.Errorf("RunTask = %+v, %v, with %d verifications", res, err, v.runs)
		}
	})
}
