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
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/session"
)

// slowly is a mutator that takes 20 minutes after each turn.
type slowly struct{}

func (slowly) Name() string              { return "slowly" }
func (slowly) Points() []extension.Point { return []extension.Point{extension.AfterTurnEnded} }
func (slowly) Mutate(ctx context.Context, _ *extension.Mutation) error {
	select {
	case <-time.After(20 * time.Minute):
	case <-ctx.Done():
	}
	return nil
}

func TestAWaitEndsWhileAMutatorRunsAfterAnotherTurn(t *testing.T) {
	t.Parallel()
	for name, dead := range map[string]bool{"driven": false, "no driver": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				stop := w.drive(engine.Config{Mutators: []extension.Mutator{slowly{}}})
				s := w.start("s", "replies:\n  - text: done\n    repeat: true\n", false, nil)
				defer func() { _ = s.Close(t.Context()) }()
				if err := s.Send(w.Ctx, "", content.UserText("go")); err != nil {
					t.Fatal(err)
				}
				w.Until("s", events.KindMutationStarted)
				turn, err := s.Submit(w.Ctx, session.Input{Items: []content.Item{content.UserText("more")}})
				if err != nil {
					t.Fatal(err)
				}
				if dead {
					stop()
				} else {
					defer stop()
				}
				ctx, cancel := context.WithTimeout(w.Ctx, time.Minute)
				defer cancel()
				began := time.Now()
				defer time.AfterFunc(2*time.Hour, turn.Close).Stop()
				if _, err = turn.Wait(ctx); !errors.Is(err, session.ErrCancelled) || time.Since(began) > 2*time.Minute {
					t.Errorf("Wait = %v after %v", err, time.Since(began))
				}
			})
		})
	}
}
