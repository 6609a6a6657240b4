package client_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/session"
)

// A wait ends with the caller's context even without a driver that could cancel the turn.
func TestWithoutADriverTheEndOfTheContextEndsTheWait(t *testing.T) {
	const slow = "replies:\n  - text: done\n    delay: 1h\n"
	for name, stepped := range map[string]bool{"a turn is open": false, "input is queued": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				stop := w.drive(engine.Config{})
				s := w.start("s", slow, stepped, nil)
				defer func() { _ = s.Close(t.Context()) }()
				turn, err := s.Submit(w.Ctx, session.Input{Items: []content.Item{content.UserText("go")}})
				if err != nil {
					t.Fatal(err)
				}
				if !stepped {
					w.Until("s", events.KindModelCallStarted)
				}
				stop()
				ctx, cancel := context.WithTimeout(w.Ctx, time.Minute)
				defer cancel()
				began := time.Now()
				if _, err := turn.Wait(ctx); !errors.Is(err, session.ErrNoAnswer) {
					t.Errorf("Wait = %v", err)
				}
				if d := time.Since(began); d > 2*time.Minute {
					t.Errorf("it took %v", d)
				}
			})
		})
	}
}
