package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/looptest"
)

// commandLog is a log core that collects the commands that drivers handle.
type commandLog struct {
	zapcore.LevelEnabler
	w *world
}

// With returns the core itself.
func (e commandLog) With([]zapcore.Field) zapcore.Core { return e }

// Check accepts every entry.
func (e commandLog) Check(entry zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return to.AddCore(entry, e)
}

// Write keeps a command.
func (e commandLog) Write(_ zapcore.Entry, fields []zapcore.Field) error {
	for _, f := range fields {
		if env, ok := f.Interface.(commands.Envelope); ok {
			e.w.addCommand(env)
		}
	}
	return nil
}

// Sync has nothing to do.
func (commandLog) Sync() error { return nil }

func (w *world) addCommand(env commands.Envelope) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := commandKey(env.Session, env.ID)
	w.sent[id] = append(w.sent[id], env)
}

// commandKey is the key of a command: effects of two sessions may have the same name.
func commandKey(s content.SessionID, id string) string { return string(s) + " " + id }

// script returns the session as a script for loop/testdata.
func (h *host) script(ctx context.Context) string {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	var recs []journal.Record
	said := make(map[string][]commands.Envelope)
	for rec, err := range h.w.store.Read(ctx, h.id, 0) {
		if err != nil {
			h.w.t.Fatal(err)
		}
		recs = append(recs, rec)
		said[rec.Entry.Cause] = h.w.sent[commandKey(h.id, rec.Entry.Cause)]
	}
	return looptest.Script(h.w.t, fmt.Sprintf("Session %s of seed %d.", h.id, h.w.seed), h.id, recs, said)
}

// recordedFailures collects failures instead of failing the test.
type recordedFailures struct {
	testing.TB

	mu   sync.Mutex
	said []string
}

func (c *recordedFailures) Errorf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = append(c.said, fmt.Sprintf(format, args...))
}

func (c *recordedFailures) Failed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.said) > 0
}

func (c *recordedFailures) about(what string) bool {
	return slices.ContainsFunc(c.said, func(s string) bool { return strings.Contains(s, what) })
}

// doubling is a journal that writes every result twice.
type doubling struct{ journal.Journal }

func (d doubling) Append(ctx context.Context, head journal.Head, e events.Entry) (journal.Head, error) {
	var twice []events.Event
	for _, ev := range e.Events {
		twice = append(twice, ev)
		if r, ok := ev.(events.ToolResultReceived); ok && !r.Late {
			twice = append(twice, ev)
		}
	}
	e.Events = twice
	return d.Journal.Append(ctx, head, e)
}

// A script must reproduce what a seed finds. Here every result is written twice, the audit finds
// it, and so do the scripts of the sessions.
func TestTheScriptOfAFailingSeedReproducesIt(t *testing.T) {
	const broken = "one-terminal-result"
	found := 0
	for seed := uint64(1); found == 0 && seed <= 10; seed++ {
		synctest.Test(t, func(t *testing.T) {
			ctx, heard := context.WithoutCancel(t.Context()), &recordedFailures{TB: t}
			w := newWorld(heard, seed, func(j journal.Journal) journal.Journal { return doubling{j} })
			for _, h := range w.live(ctx) {
				found += h.shownAgain(t, broken)
			}
		})
	}
	if found == 0 {
		t.Error("no seed has a result")
	}
}

// shownAgain runs a session's script and checks that it reproduces what package audit finds in
// the journal.
func (h *host) shownAgain(t *testing.T, invariant string) (found int) {
	t.Helper()
	rep, err := audit.Verify(h.w.store.Read(t.Context(), h.id, 0))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(rep.Faults, func(v verdict.Fault) bool { return v.Invariant == invariant }) {
		return 0
	}
	text, heard := h.script(t.Context()), &recordedFailures{TB: t}
	if again := looptest.Play(heard, text); again != text {
		t.Errorf("%s: the script tells something else the second time:\n%s\n%s", h.id, text, again)
	}
	if !heard.about(invariant) {
		t.Errorf("%s: the script does not show that %s is broken, but %q:\n%s", h.id, invariant, heard.said, text)
	}
	if n := strings.Count(text, "\ntell "); n < 3 {
		t.Errorf("%s: the script has %d commands:\n%s", h.id, n, text)
	}
	return 1
}

// The script of a correct session has commands only, and they lead to the same events.
func TestTheScriptOfASessionIsItsCommands(t *testing.T) {
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed+1, func(j journal.Journal) journal.Journal { return j })
			for _, h := range w.live(context.WithoutCancel(t.Context())) {
				text := h.script(t.Context())
				if again := looptest.Play(t, text); again != text {
					t.Errorf("seed %d: %s: the script tells something else the second time:\n%s\n%s", w.seed, h.id, text, again)
				}
				if n := strings.Count(text, "\nrecord "); n > 0 {
					t.Errorf("seed %d: %s: %d entries have no command:\n%s", w.seed, h.id, n, text)
				}
			}
		})
	}
}
