package jetstream_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/agents"
)

// provisioned returns a cell on a server of its own.
func provisioned(tb testing.TB) *jetstream.Cell {
	tb.Helper()
	c, err := jetstream.Open(natstest.Connect(tb, natstest.Start(tb)), "")
	natstest.Must(tb, err)
	natstest.Must(tb, admin.Of(c).Provision(tb.Context(), admin.Config{Memory: true}))
	return c
}

func TestAgentsArePublishedInVersions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, store := t.Context(), agents.Of(provisioned(t))
		if _, err := store.Get(ctx, "reviewer", ""); !errors.Is(err, agents.ErrNotPublished) {
			t.Errorf("Get of an unpublished agent = %v, want ErrNotPublished", err)
		}
		natstest.Must(t, store.Publish(ctx, "reviewer", "v1", []byte("one")))
		natstest.Must(t, store.Publish(ctx, "reviewer", "v2", []byte("two")))
		natstest.Must(t, store.Publish(ctx, "reviewer", "v2", []byte("two")))
		natstest.Must(t, store.Publish(ctx, "tester", "v1", []byte("t")))
		for version, want := range map[string]string{"": "v2 two", "v1": "v1 one", "v2": "v2 two"} {
			got, err := store.Get(ctx, "reviewer", version)
			if err != nil || got.Version+" "+string(got.Data) != want || got.Published.IsZero() {
				t.Errorf("Get(%q) = %+v, %v; want %s", version, got, err, want)
			}
		}
		list, err := store.List(ctx)
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
	synctest.Test(t, func(t *testing.T) {
		ctx, store := t.Context(), agents.Of(provisioned(t))
		natstest.Must(t, store.Publish(ctx, "reviewer", "v1", []byte("one")))
		natstest.Must(t, store.Withdraw(ctx, "reviewer"))
		if _, err := store.Get(ctx, "reviewer", ""); !errors.Is(err, agents.ErrNotPublished) {
			t.Errorf("Get of a withdrawn agent = %v, want ErrNotPublished", err)
		}
		if got, err := store.Get(ctx, "reviewer", "v1"); err != nil || string(got.Data) != "one" {
			t.Errorf("Get of its version = %+v, %v", got, err)
		}
		if list, err := store.List(ctx); err != nil || len(list) > 0 {
			t.Errorf("List = %v, %v; want none", list, err)
		}
		if err := store.Withdraw(ctx, "reviewer"); !errors.Is(err, agents.ErrNotPublished) {
			t.Errorf("Withdraw again = %v, want ErrNotPublished", err)
		}
		natstest.Must(t, store.Publish(ctx, "reviewer", "v1", []byte("one")))
		if got, err := store.Get(ctx, "reviewer", ""); err != nil || got.Version != "v1" {
			t.Errorf("Get after it was published again = %+v, %v", got, err)
		}
	})
}

func TestNamesOfAgentsAreTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := agents.Of(provisioned(t))
		for _, name := range []string{"", "a.b", "a b", "*", ">"} {
			if err := store.Publish(t.Context(), name, "v1", nil); !errors.Is(err, content.ErrBadID) {
				t.Errorf("Publish(%q) = %v, want ErrBadID", name, err)
			}
			if _, err := store.Get(t.Context(), name, ""); !errors.Is(err, agents.ErrNotPublished) {
				t.Errorf("Get(%q) = %v, want ErrNotPublished", name, err)
			}
		}
	})
}
