package client_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/commands/schedule"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/seal"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/seals"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
	"github.com/turnlog/turnlog/worker"
)

// remembered counts what tasks leave for later ones.
type remembered struct{ recalls, notes int }

func (r *remembered) Recall(context.Context, string) ([]content.Item, error) {
	r.recalls++
	return nil, nil
}

func (r *remembered) Remember(context.Context, string, string) error {
	r.notes++
	return nil
}

// newSealing returns a deployment whose processes have seal keys, with a worker and a node.
func newSealing(t *testing.T, notes *remembered, tools func(*client.Client) []tool.Tool) *turnlogtest.Deployment {
	t.Helper()
	file := filepath.Join(t.TempDir(), "seal.key")
	_, err := seal.Create(file)
	ring, readErr := seal.Read(file)
	if err := errors.Join(err, readErr); err != nil {
		t.Fatal(err)
	}
	d := turnlogtest.Empty(t.Context(), t, turnlogtest.SealKeys(ring))
	if tools != nil {
		d.Worker("w1", worker.Config{DrainTimeout: time.Second}, func(nc *nats.Conn) []tool.Tool {
			c, err := client.Open(nc, "", client.WithSealKeys(ring))
			if err != nil {
				t.Fatal(err)
			}
			return tools(c)
		})
	}
	d.Node(actor.Config{Effects: engine.Config{Notes: notes}, Models: func(name string, data []byte) (model.Model, error) { return scripted.Parse(name, data) }})
	return d
}

func TestASealedSessionStoresNothingInTheClear(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var notes remembered
		d := newSealing(t, &notes, nil)
		const fine = "replies:\n  - text: fine\n    repeat: true\n"
		sealed, open := d.Start("sealed", fine, turnlogtest.Sealed), d.Start("open", fine)
		for n, s := range []*session.Session{sealed, open} {
			if _, err := s.RunTask(d.Ctx, session.Task{Goal: "Say fine."}); err != nil {
				t.Fatal(err)
			}
			if notes != (remembered{n, n}) {
				t.Errorf("after the task of %s: %+v", s.ID(), notes)
			}
		}
		file := content.BlobPart("a.txt", "text/plain", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", 4)
		item := content.NewItem(content.User, file)
		if _, err := sealed.Submit(d.Ctx, session.Input{Items: []content.Item{item}}); !errors.Is(err, client.ErrStoredFile) {
			t.Errorf("Submit of a stored file = %v", err)
		}
		later := schedule.Schedule{
			Name: "later", Timing: schedule.Timing{At: time.Now().Add(time.Hour)}, Session: "sealed", Overlap: schedule.Allow, Created: time.Now(),
			Commands: []commands.Command{commands.SubmitInput{Items: []content.Item{content.UserText("more")}}},
		}
		if err := d.Client.Schedule(d.Ctx, later, false); !errors.Is(err, client.ErrSealedSchedule) {
			t.Errorf("Schedule = %v", err)
		}
		later.Session = "open"
		if err := d.Client.Schedule(d.Ctx, later, false); err != nil {
			t.Errorf("Schedule for a session that is not sealed = %v", err)
		}
		if _, err := d.Client.Start(d.Ctx, client.Options{ID: "fork", From: events.EntryRef{Session: "sealed", Seq: 2}}); !errors.Is(err, client.ErrSealedFork) {
			t.Errorf("Start of a fork = %v", err)
		}
		keyless, err := client.Open(d.Conn, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := keyless.Start(d.Ctx, client.Options{Config: events.Config{Model: "m"}, Sealed: true}); !errors.Is(err, client.ErrNoSealKey) {
			t.Errorf("Start without seal keys = %v", err)
		}
		if _, err := keyless.Attach(d.Ctx, "sealed"); !errors.Is(err, events.ErrUnknownKind) {
			t.Errorf("Attach without seal keys = %v", err)
		}
	})
}

func TestASubAgentOfASealedSessionIsSealed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newSealing(t, &remembered{}, func(c *client.Client) []tool.Tool {
			helper, err := c.Tool("helper", "Helps.", client.Options{Config: events.Config{Model: "scripted:child", ModelData: []byte("replies: [{text: done}]")}})
			if err != nil {
				t.Fatal(err)
			}
			return []tool.Tool{helper}
		})
		if _, err := d.Start("s", delegating, turnlogtest.Sealed).RunText(d.Ctx, "go"); err != nil {
			t.Fatal(err)
		}
		for _, r := range d.Records(child) {
			if r.Entry.Version != events.VersionSealed {
				t.Errorf("entry %d of the sub-agent is not sealed", r.Seq)
			}
		}
		if got, err := seals.Of(d.Cell).Children(d.Ctx, "s"); err != nil || !slices.Equal(got, []content.SessionID{child}) {
			t.Errorf("Children = %v, %v", got, err)
		}
	})
}

// TestASessionThatExistsIsNotSealed has a user open another user's session again, but sealed. Later commands must
// still arrive.
func TestASessionThatExistsIsNotSealed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newSealing(t, &remembered{}, nil)
		script := events.Config{Model: "scripted:s", ModelData: []byte("replies: [{text: fine, repeat: true}]")}
		open := d.Start("open", string(script.ModelData))
		if _, err := open.RunText(d.Ctx, "hi"); err != nil {
			t.Fatal(err)
		}
		again := func(id content.SessionID) error {
			_, err := d.Client.Start(d.Ctx, client.Options{ID: id, Config: script, Sealed: true})
			return err
		}
		if taken, ok := errors.AsType[*session.InvalidStateError](again("open")); !ok || taken.Reason != commands.ReasonSessionExists {
			t.Errorf("Start = %v", taken)
		}
		if sealed, err := d.Client.IsSealed(d.Ctx, "open"); sealed || err != nil {
			t.Errorf("IsSealed = %v, %v", sealed, err)
		}
		other, err := d.Client.Attach(d.Ctx, "open")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.RunText(d.Ctx, "more"); err != nil {
			t.Errorf("RunText = %v", err)
		}

		const command = "the-command-that-opened-it"
		for range 2 { // a retry gets what it got before
			if _, err := d.Client.Start(d.Ctx, client.Options{ID: "sealed", Config: script, Sealed: true, Command: command}); err != nil {
				t.Fatal(err)
			}
		}
		d.Until("sealed", events.KindParked)
		last, err := d.Cell.Journal().Last(d.Ctx, "sealed")
		if err != nil {
			t.Fatal(err)
		}
		keeper := admin.Of(d.Cell)
		if _, err := keeper.Delete(d.Ctx, last, events.SessionDeleted{By: "ada", Erased: true}); err != nil {
			t.Fatal(err)
		}
		if err := keeper.Erase(d.Ctx, "sealed"); err != nil {
			t.Fatal(err)
		}
		if gone, ok := errors.AsType[*session.DeletedError](again("sealed")); !ok || !gone.Erased {
			t.Errorf("Start of an erased session = %v", gone)
		}
		if left, err := seals.Of(d.Cell).Left(d.Ctx, "sealed"); left || err != nil {
			t.Errorf("the erased session has a key again: %v, %v", left, err)
		}
	})
}

// TestAnErasedSessionIsNotWrappedAgain wraps the keys of a deployment again while a session is erased: its tombstone
// exists, and its key still does.
func TestAnErasedSessionIsNotWrappedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newSealing(t, &remembered{}, nil)
		const fine = "replies:\n  - text: fine\n    repeat: true\n"
		for _, id := range []content.SessionID{"erased", "kept"} {
			d.Start(id, fine, turnlogtest.Sealed)
			d.Until(id, events.KindParked)
		}
		last, err := d.Cell.Journal().Last(d.Ctx, "erased")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admin.Of(d.Cell).Delete(d.Ctx, last, events.SessionDeleted{By: "ada", Erased: true}); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "new.key")
		_, err = seal.Create(file)
		ring, readErr := seal.Read(file)
		if err := errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		keys := seals.Of(d.Cell.Sealing(append(ring, d.Cell.SealRing()...)))
		if out, err := keys.Rewrap(d.Ctx); err != nil || out.Sessions != 2 {
			t.Fatalf("Rewrap = %+v, %v", out, err)
		}
		for id, want := range map[content.SessionID]bool{"erased": false, "kept": true} {
			if left, err := keys.Left(d.Ctx, id); err != nil || left != want {
				t.Errorf("%s has a key: %v, %v", id, left, err)
			}
		}
	})
}
