package actor_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/turnlogtest"
)

// noKeyError reports that a node lacks the key of a model.
type noKeyError struct{}

func (noKeyError) Error() string   { return "KEY is not set" }
func (noKeyError) Elsewhere() bool { return true }

// without makes a node lack the keys of all models.
func without(c *actor.Config) {
	c.Models = func(string, []byte) (model.Model, error) { return nil, noKeyError{} }
}

// failed lists the failed model calls of a session.
func (w *world) failed(id content.SessionID) []events.ModelCallFailed {
	return turnlogtest.Facts[events.ModelCallFailed](w.Deployment, id)
}

func TestASessionMovesToANodeThatHasItsModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.node("n1", without)
		s := w.Start("s", oneReply)
		second := w.node("n2")
		w.submit(s, "go")
		if got := w.finish(s); got.Text() != "ok" {
			t.Errorf("answer = %q", got.Text())
		}
		if got := w.owners("s"); got[len(got)-1] != "n2" {
			t.Errorf("driven by %v, want n2 in the end", got)
		}
		if len(w.failed("s")) == 0 {
			t.Error("n1 never had the session")
		}
		for _, f := range w.failed("s") {
			if f.Class != content.ClassServer || f.Code != "model_not_here" || f.Message != "node n1: KEY is not set" {
				t.Errorf("recorded %+v", f)
			}
		}
		first.Drain(t)
		second.Drain(t)
	})
}

func TestASessionGetsAnotherModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		s := w.Start("s", oneReply)
		w.submit(s, "go")
		w.finish(s)
		err := s.SwitchModel(w.Ctx, "scripted:test", []byte("replies: 1"))
		if e, ok := errors.AsType[*session.InvalidStateError](err); !ok || e.Reason != commands.ReasonInvalidInput {
			t.Errorf("SwitchModel to a bad script = %v, want a refusal", err)
		}
		if err := s.SwitchModel(w.Ctx, "scripted:test", []byte(`replies: [{text: other}, {text: other}]`)); err != nil {
			t.Fatal(err)
		}
		n.Drain(t)
		n = w.node("n2") // the journal has it
		w.submit(s, "go")
		if got := w.finish(s); got.Text() != "other" {
			t.Errorf("answer = %q", got.Text())
		}
		n.Drain(t)
	})
}

func TestATurnFailsIfNoNodeHasItsModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1", without)
		s := w.Start("s", oneReply)
		w.submit(s, "go")
		_, err := s.Next(w.Ctx)
		if err == nil || !strings.Contains(err.Error(), "KEY is not set") {
			t.Errorf("Next = %v, want the missing key", err)
		}
		failed := w.failed("s")
		if waited := failed[len(failed)-2].RetryAt.Sub(failed[0].RetryAt); waited < 4*time.Minute || waited > 5*time.Minute {
			t.Errorf("%d attempts in %v, want the patience of a model call", len(failed), waited)
		}
		if got := w.owners("s"); slices.ContainsFunc(got, func(o string) bool { return o != "n1" }) {
			t.Errorf("driven by %v", got)
		}
		n.Drain(t)
	})
}

func TestAnUnknownModelFailsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1", func(c *actor.Config) {
			c.Models = func(string, []byte) (model.Model, error) { return nil, errors.New("no such model") }
		})
		s := w.Start("s", oneReply)
		w.submit(s, "go")
		if _, err := s.Next(w.Ctx); err == nil || !strings.Contains(err.Error(), "no such model") {
			t.Errorf("Next = %v", err)
		}
		if got := w.failed("s"); len(got) != 1 || got[0].Code != "unknown_model" || len(w.owners("s")) != 1 {
			t.Errorf("recorded %+v, driven by %v", got, w.owners("s"))
		}
		n.Drain(t)
	})
}
