package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/internal/testing/memorytest"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/memory"
	"github.com/turnlog/turnlog/policy/notes"
)

func TestMain(m *testing.M) { natstest.Main(m) }

func open(tb testing.TB) *memory.Memory {
	tb.Helper()
	c, err := jetstream.Open(natstest.Connect(tb, natstest.Start(tb)), "")
	natstest.Must(tb, err)
	natstest.Must(tb, admin.Of(c).Provision(tb.Context(), admin.Config{Memory: true}))
	return memory.Of(c)
}

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	memorytest.Run(t, func(t testing.TB) notes.Store { return open(t) })
}

func TestNotesExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, m := t.Context(), open(t)
		natstest.Must(t, m.Put(ctx, "a", notes.Note{Goal: "soon", Summary: "s"}, 2*time.Second))
		natstest.Must(t, m.Put(ctx, "a", notes.Note{Goal: "later", Summary: "l"}, time.Hour))
		<-time.After(5 * time.Second)
		notes, err := m.Notes(ctx, "a")
		if err != nil || len(notes) != 1 || notes[0].Goal != "later" {
			t.Errorf("Notes = %+v, %v; want the one that is not over", notes, err)
		}
	})
}
