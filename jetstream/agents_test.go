package jetstream

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
)

func TestAgentsArePublishedInVersions(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		ctx, agents := t.Context(), c.Agents()
		if _, err := agents.Get(ctx, "reviewer", ""); !errors.Is(err, ErrNoAgent) {
			t.Errorf("Get of an unpublished agent = %v, want ErrNoAgent", err)
		}
		must(t, agents.Publish(ctx, "reviewer", "v1", []byte("one")))
		must(t, agents.Publish(ctx, "reviewer", "v2", []byte("two")))
		must(t, agents.Publish(ctx, "reviewer", "v2", []byte("two")))
		must(t, agents.Publish(ctx, "tester", "v1", []byte("t")))
		for version, want := range map[string]string{"": "v2 two", "v1": "v1 one", "v2": "v2 two"} {
			got, err := agents.Get(ctx, "reviewer", version)
			if err != nil || got.Version+" "+string(got.Data) != want || got.Published.IsZero() {
				t.Errorf("Get(%q) = %+v, %v; want %s", version, got, err, want)
			}
		}
		list, err := agents.List(ctx)
		var names []string
		for _, a := range list {
			names = append(names, a.Name+" "+a.Version)
		}
		if diff := cmp.Diff([]string{"reviewer v2", "tester v1"}, names); err != nil || diff != "" {
			t.Errorf("List: %v (-want +got):\n%s", err, diff)
		}
	})
}

func TestAWithdrawnAgentKeepsItsVersions(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		ctx, agents := t.Context(), c.Agents()
		must(t, agents.Publish(ctx, "reviewer", "v1", []byte("one")))
		must(t, agents.Withdraw(ctx, "reviewer"))
		if _, err := agents.Get(ctx, "reviewer", ""); !errors.Is(err, ErrNoAgent) {
			t.Errorf("Get of a withdrawn agent = %v, want ErrNoAgent", err)
		}
		if got, err := agents.Get(ctx, "reviewer", "v1"); err != nil || string(got.Data) != "one" {
			t.Errorf("Get of its version = %+v, %v", got, err)
		}
		if list, err := agents.List(ctx); err != nil || len(list) > 0 {
			t.Errorf("List = %v, %v; want none", list, err)
		}
		if err := agents.Withdraw(ctx, "reviewer"); !errors.Is(err, ErrNoAgent) {
			t.Errorf("Withdraw again = %v, want ErrNoAgent", err)
		}
		must(t, agents.Publish(ctx, "reviewer", "v1", []byte("one")))
		if got, err := agents.Get(ctx, "reviewer", ""); err != nil || got.Version != "v1" {
			t.Errorf("Get after it was published again = %+v, %v", got, err)
		}
	})
}

func TestNamesOfAgentsAreTokens(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		for _, name := range []string{"", "a.b", "a b", "*", ">"} {
			if err := c.Agents().Publish(t.Context(), name, "v1", nil); !errors.Is(err, content.ErrBadID) {
				t.Errorf("Publish(%q) = %v, want ErrBadID", name, err)
			}
			if _, err := c.Agents().Get(t.Context(), name, ""); !errors.Is(err, ErrNoAgent) {
				t.Errorf("Get(%q) = %v, want ErrNoAgent", name, err)
			}
		}
	})
}
