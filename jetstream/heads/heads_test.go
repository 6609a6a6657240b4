package heads

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	turnlog "github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

func TestMain(m *testing.M) { natstest.Main(m) }

func must(tb testing.TB, err error) {
	tb.Helper()
	natstest.Must(tb, err)
}

func in(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := turnlog.Open(natstest.Connect(t, natstest.Start(t)), "")
		must(t, err)
		must(t, admin.Of(c).Provision(t.Context(), admin.Config{Memory: true}))
		test(t, Of(c))
	})
}

func leaf(s string, seq uint64) headlog.Leaf {
	return headlog.Leaf{Cell: "turnlog", Session: content.SessionID(s), Seq: seq, Hash: events.HashOf([]byte(s))}
}

func TestATileNeverChanges(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *Store) {
		first := headlog.Tile{Path: "tile/0/000", Data: bytes.Repeat([]byte("a"), 8192)}
		for range 2 {
			must(t, s.PutTile(t.Context(), first))
		}
		if err := s.PutTile(t.Context(), headlog.Tile{Path: first.Path, Data: []byte("b")}); !errors.Is(err, ErrDamaged) {
			t.Errorf("another tile with that path: %v", err)
		}
		if got, err := s.Tile(t.Context(), first.Path); err != nil || !bytes.Equal(got, first.Data) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		for _, request := range []string{"STREAM.PURGE.OBJ_TURNLOG_LOG", "STREAM.PURGE.KV_TURNLOG_CHECKPOINTS", "STREAM.MSG.DELETE.OBJ_TURNLOG_LOG"} {
			if _, err := s.api.Ask(t.Context(), "$JS.API."+request, []byte(`{"seq":1}`)); err == nil {
				t.Errorf("the server allows %s", request)
			}
		}
		if _, err := s.Tile(t.Context(), "tile/0/001"); !errors.Is(err, ErrDamaged) {
			t.Errorf("a missing tile: %v", err)
		}
	})
}

func TestOneStateFollowsAnother(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *Store) {
		empty := headlog.NewState("example.com/log")
		if _, number, err := s.State(t.Context()); number != 0 || err != nil {
			t.Errorf("before the first: %d, %v", number, err)
		}
		one, err := empty.Append([][]byte{leaf("s-1", 1).Text()})
		must(t, err)
		number, err := s.Commit(t.Context(), one, 0)
		must(t, err)
		if _, err := s.Commit(t.Context(), one, 0); !errors.Is(err, ErrConflict) {
			t.Errorf("a second first state: %v", err)
		}
		if got, at, err := s.State(t.Context()); err != nil || at != number || got.Checkpoint() != one.Checkpoint() {
			t.Errorf("%v, %d, %v", got.Checkpoint(), at, err)
		}
		_, err = s.Commit(t.Context(), empty, number)
		must(t, err)
		must(t, s.Publish(t.Context(), []byte("a"), 0))
		if err := s.Publish(t.Context(), []byte("b"), 0); !errors.Is(err, ErrConflict) {
			t.Errorf("a second first checkpoint: %v", err)
		}
		if _, _, err := s.Published(t.Context()); !errors.Is(err, ErrDamaged) {
			t.Errorf("a checkpoint that is none: %v", err)
		}
	})
}

func TestTheNewestLeafOfASessionStays(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *Store) {
		for i, seq := range []uint64{5, 9, 7, 9, 12} {
			must(t, s.Record(t.Context(), int64(i), leaf("s-1", seq)))
		}
		must(t, s.Record(t.Context(), 1, leaf("s-1", 9))) // again, after a restart
		it, ok, err := s.newest.Get(t.Context(), "s-1")
		if err != nil || !ok || it.Value != (position{4, 12}) {
			t.Errorf("%+v, %v", it.Value, err)
		}
	})
}

// TestProofsOfALargerLogVerify has tiles of two levels, and a checkpoint that is older than the state.
func TestProofsOfALargerLogVerify(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *Store) {
		state, number := headlog.NewState("example.com/log"), uint64(0)
		var published headlog.Checkpoint
		for i := range 600 {
			l := leaf(fmt.Sprintf("s-%d", i), 3)
			next, err := state.Append([][]byte{l.Text()})
			must(t, err)
			for _, tile := range next.Due {
				must(t, s.PutTile(t.Context(), tile))
			}
			if state = next; i == 550 {
				published = state.Checkpoint()
			}
		}
		_, err := s.Commit(t.Context(), state, number)
		must(t, err)
		must(t, s.Publish(t.Context(), []byte(published.Text()+"\n— example.com/log AAAAAAAA\n"), 0)) // Prove verifies no signature
		for _, i := range []int64{0, 255, 256, 511, 512, 550} {
			l := leaf(fmt.Sprintf("s-%d", i), 3)
			must(t, s.Record(t.Context(), i, l))
			p, err := s.Prove(t.Context(), l.Session)
			if err != nil || p.Leaf != l || p.Index != i || len(p.Hashes) == 0 {
				t.Errorf("proof of leaf %d: %+v, %v", i, p.Leaf, err)
			}
		}
		if _, err := s.Prove(t.Context(), "s-580"); !errors.Is(err, ErrNotLogged) {
			t.Error(err)
		}
	})
}
