package jetstream_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/internal/testing/memorytest"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream/memory"
	"github.com/turnlog/turnlog/policy/notes"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	memorytest.Run(t, func(t testing.TB) notes.Store { return memory.Of(provisioned(t)) })
}

func TestNotesExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, m := t.Context(), memory.Of(provisioned(t))
		natstest.Must(t, m.Put(ctx, "a", notes.Note{Goal: "soon", Summary: "s"}, 2*time.Second))
		natstest.Must(t, m.Put(ctx, "a", notes.Note{Goal: "later", Summary: "l"}, time.Hour))
		<-time.After(5 * time.Second)
		notes, err := m.Notes(ctx, "a")
		if err != nil || len(notes) != 1 || notes[0].Goal != "later" {
			t.Errorf("Notes = %+v, %v; want the one that is not over", notes, err)
		}
	})
}
