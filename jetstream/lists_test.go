package jetstream

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
)

func TestListsAddAndRemoveSessions(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		ctx, list := t.Context(), c.Approvals()
		if _, err := c.DeadLetters().Note(ctx, "dead"); err != nil { // on its own list
			t.Fatal(err)
		}
		listed := func(want ...content.SessionID) {
			t.Helper()
			got, err := list.Sessions(ctx)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("Sessions: %v (-want +got):\n%s", err, diff)
			}
		}
		note := func(s content.SessionID) uint64 {
			t.Helper()
			n, err := list.Note(ctx, s)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		listed()
		a, b := note("a"), note("b")
		if n, err := list.Noted(ctx, "a"); n != a || err != nil {
			t.Errorf("Noted = %d, %v, want %d", n, err, a)
		}
		listed("a", "b")
		must(t, list.Strike(ctx, "b", b))
		listed("a")
		again := note("a")
		must(t, list.Strike(ctx, "a", a)) // a replaced driver
		listed("a")
		must(t, list.Strike(ctx, "a", again))
		listed()
		if n, err := list.Noted(ctx, "a"); n != 0 || err != nil {
			t.Errorf("Noted = %d, %v, want 0", n, err)
		}
		if _, err := list.Note(ctx, "a.b"); !errors.Is(err, content.ErrBadID) {
			t.Errorf("Note = %v, want ErrBadID", err)
		}
	})
}
