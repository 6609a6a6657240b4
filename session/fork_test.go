package session_test

import (
	"errors"
	"testing"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

// A client may send any reference, so the driver compares it with the entry that it has read.
func TestAForkIsRefusedIfItsOriginIsNotWhatItSays(t *testing.T) {
	t.Parallel()
	origin := loop.New("plan")
	origin.Opened, origin.Transcript = true, []content.Item{content.UserText("hi")}
	head := journal.Head{Seq: 2, Hash: events.HashOf([]byte("entry"))}
	ask := commands.OpenSession{From: events.EntryRef{Session: "plan", Seq: 2, Hash: head.Hash}.String()}
	if c, err := session.Fork(ask, origin, head); err != nil || len(c.Transcript) != 1 {
		t.Fatalf("Fork = %+v, %v", c, err)
	}
	unopened, deleted := loop.New("plan"), loop.New("plan")
	deleted.Opened, deleted.Deleted = true, &events.Deletion{}
	for name, tc := range map[string]struct {
		origin *loop.State
		head   journal.Head
		want   string
	}{
		"another hash":   {origin, journal.Head{Seq: 2, Hash: events.HashOf(nil)}, commands.ReasonBadTranscript},
		"an earlier end": {origin, journal.Head{Seq: 1, Hash: head.Hash}, commands.ReasonNoSession},
		"no journal":     {unopened, journal.Head{}, commands.ReasonNoSession},
		"not opened":     {unopened, head, commands.ReasonNoSession},
		"deleted":        {deleted, head, commands.ReasonDeleted},
	} {
		_, err := session.Fork(ask, tc.origin, tc.head)
		if r, ok := errors.AsType[*commands.Rejection](err); !ok || r.Reason != tc.want {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
	ask.Transcript = []content.Item{content.UserText("made up")}
	if _, fork := ask.Origin(); fork {
		t.Error("a command with a transcript leaves the history to the driver")
	}
}
