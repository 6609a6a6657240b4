// Package memorytest tests implementations of [notes.Store].
package memorytest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/turnlog/turnlog/policy/notes"
)

// long is a time to live that no test waits for.
const long = time.Hour

// Run tests the store that open returns. Each property is a subtest with scopes of its own, so they
// may share a store.
func Run(t *testing.T, open func(t testing.TB) notes.Store) {
	t.Helper()
	for i, c := range []struct {
		name string
		run  func(t *testing.T, b *bench)
	}{
		{"EmptyScopeHasNoNotes", empty},
		{"NewestNoteIsFirst", newestFirst},
		{"GoalHasOneNote", oneNote},
		{"ScopesAreSeparate", scopes},
		{"ForgottenNoteIsGone", forget},
		{"AnyTextCanBeAGoal", anyText},
		{"NotesMayBePutConcurrently", concurrent},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, &bench{open(t), fmt.Sprintf("case%d-", i)}) })
	}
}

// bench is a store for one case, in which it prefixes scopes.
type bench struct {
	store  notes.Store
	prefix string
}

func put(t *testing.T, b *bench, scope, goal, summary string) {
	t.Helper()
	if err := b.store.Put(t.Context(), b.prefix+scope, notes.Note{Goal: goal, Summary: summary}, long); err != nil {
		t.Fatalf("Put(%s, %s) = %v", scope, goal, err)
	}
}

// expect compares the goals and summaries of a scope.
func expect(t *testing.T, b *bench, scope string, want ...string) {
	t.Helper()
	notes, err := b.store.Notes(t.Context(), b.prefix+scope)
	if err != nil {
		t.Fatalf("Notes(%s) = %v", scope, err)
	}
	var got []string
	for _, n := range notes {
		got = append(got, n.Goal+"="+n.Summary)
		if n.At.IsZero() {
			t.Errorf("note of %s has no time", n.Goal)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("Notes(%s) = %q, want %q", scope, got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("note %d of %s is %q, want %q", i, scope, got[i], want[i])
		}
	}
}

func empty(t *testing.T, b *bench) {
	expect(t, b, "none")
	if err := b.store.Forget(t.Context(), b.prefix+"none", "nothing"); err != nil {
		t.Errorf("Forget of a missing note = %v", err)
	}
}

func newestFirst(t *testing.T, b *bench) {
	put(t, b, "a", "one", "1")
	put(t, b, "a", "two", "2")
	put(t, b, "a", "three", "3")
	expect(t, b, "a", "three=3", "two=2", "one=1")
}

func oneNote(t *testing.T, b *bench) {
	put(t, b, "a", "one", "1")
	put(t, b, "a", "two", "2")
	put(t, b, "a", "one", "better")
	expect(t, b, "a", "one=better", "two=2")
}

func scopes(t *testing.T, b *bench) {
	put(t, b, "a", "goal", "of a")
	put(t, b, "b", "goal", "of b")
	expect(t, b, "a", "goal=of a")
	expect(t, b, "b", "goal=of b")
}

func forget(t *testing.T, b *bench) {
	put(t, b, "a", "one", "1")
	put(t, b, "a", "two", "2")
	if err := b.store.Forget(t.Context(), b.prefix+"a", "one"); err != nil {
		t.Fatal(err)
	}
	expect(t, b, "a", "two=2")
	put(t, b, "a", "one", "again")
	expect(t, b, "a", "one=again", "two=2")
}

func anyText(t *testing.T, b *bench) {
	goal := "Why is *.go > 3? \n\t ünï 🙂 " + string(make([]byte, 2000))
	put(t, b, "a", goal, "found")
	expect(t, b, "a", goal+"=found")
}

func concurrent(t *testing.T, b *bench) {
	const tasks = 8
	var wg sync.WaitGroup
	errs := make([]error, tasks)
	for i := range tasks {
		wg.Go(func() {
			errs[i] = b.store.Put(t.Context(), b.prefix+"a", notes.Note{Goal: string(rune('a' + i)), Summary: "s"}, long)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if notes, err := b.store.Notes(t.Context(), b.prefix+"a"); err != nil || len(notes) != tasks {
		t.Errorf("Notes = %d notes, %v; want %d", len(notes), err, tasks)
	}
}
