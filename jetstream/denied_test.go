package jetstream

import (
	"cmp"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// A server does not answer a denied request, so waiting for an answer is useless.
func TestDeniedRequestsFailWithoutWaiting(t *testing.T) {
	t.Parallel()
	s := startServer(t, embedded.WithSettings(`authorization { users: [
		{ user: admin, password: p }
		{ user: silent, password: p, permissions: { publish: { allow: "nothing" } } }
		{ user: deaf, password: p, permissions: { subscribe: { allow: "nothing" } } }
	] }`))
	provision(t, connect(t, s, nats.UserInfo("admin", "p")))
	quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	mute := openCell(t, connect(t, s, nats.UserInfo("silent", "p"), quiet))
	deaf := openCell(t, connect(t, s, nats.UserInfo("deaf", "p"), quiet))
	ctx := within(t, time.Minute)
	cases := map[string]struct {
		do   func(*Cell) error
		want string
	}{
		"a command": {func(c *Cell) error {
			_, err := c.Inbox().Send(ctx, commands.Envelope{ID: "a", Session: "s", Command: commands.Close{}})
			return err
		}, "turnlog.cmd.s.ask"},
		"an entry": {func(c *Cell) error {
			_, err := c.Journal().Append(ctx, journal.Head{}, events.Entry{Session: "s", Cause: "a", Events: []events.Event{events.SessionClosed{}}})
			if errors.Is(err, journal.ErrUnknown) != strings.Contains(err.Error(), "may not hear") {
				t.Errorf("Append = %v: a refused entry was not written, and the outcome of an accepted one is unknown", err)
			}
			return err
		}, "turnlog.journal.s"},
		"a read":  {func(c *Cell) error { _, err := c.Journal().Last(ctx, "s"); return err }, api.MsgGet + "TURNLOG_JOURNAL"},
		"a scan":  {func(c *Cell) error { _, err := c.DeadLetters().Sessions(ctx); return err }, api.DirectGet + "KV_TURNLOG_DEAD"},
		"a note":  {func(c *Cell) error { _, err := c.DeadLetters().Note(ctx, "s"); return err }, "$KV.TURNLOG_DEAD.s"},
		"a purge": {func(c *Cell) error { return c.api.Purge(ctx, c.names.SchedulesStream(), c.names.Fired("x"), 2) }, api.StreamPurge + "TURNLOG_SCHEDULES"},
		"a blob":  {func(c *Cell) error { _, _, err := c.Blobs().PutFrom(ctx, strings.NewReader("x")); return err }, ""},
	}
	for what, x := range cases {
		for subject, c := range map[string]*Cell{x.want: mute, "_INBOX.": deaf} {
			for range 2 { // the second denial is not stale
				began := time.Now()
				err := x.do(c)
				d, denied := errors.AsType[*DeniedError](err)
				if !denied || !errors.Is(err, nats.ErrPermissionViolation) || d.Hearing != (c == deaf) || !strings.HasPrefix(d.Subject, subject) {
					t.Fatalf("%s: %v, want a denial of %q", what, err, subject)
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("%s took %v to fail", what, took)
				}
			}
		}
	}
}

// A denial affects no other request on the same connection.
func TestConcurrentDenialsNameTheirOwnSubjects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t, embedded.WithSettings(`authorization { users: [
			{ user: admin, password: p, permissions: { publish: { deny: "$KV.TURNLOG_DEAD.>" } } }
		] }`))
		c := provision(t, connect(t, s, nats.UserInfo("admin", "p"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})))
		ctx := within(t, time.Minute)
		must(t, cmp.Or(api.Together([]content.SessionID{"a", "b", "c", "d"}, func(s content.SessionID) error {
			_, err := c.DeadLetters().Note(ctx, s)
			if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), "$KV.TURNLOG_DEAD."+string(s)) {
				t.Errorf("Note of %s = %v, want its own denial", s, err)
			}
			_, err = c.Approvals().Note(ctx, s)
			return err
		})...))
	})
}
