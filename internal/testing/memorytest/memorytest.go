// Package memorytest tests implementations of [notes.Store]. [Run] writes and reads through that
// interface only, in scopes that it chooses.
package memorytest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/turnlog/turnlog/policy/notes"
)

// long is a time to live that no test waits for.
const long = time.Hour

// Run tests the store that open returns. Each property is a subtest.
func Run(t *testing.T, open func(t testing.TB) notes.Store) {
	t.Helper()
	for name, check := range map[string]func(t *testing.T, s notes.Store){
		"an-empty-scope-has-no-notes":         empty,
		"the-newest-note-comes-first":         newestFirst,
		"a-goal-has-one-note":                 oneNote,
		"scopes-do-not-see-each-other":        scopes,
		"what-is-forgotten-is-gone":           forget,
		"any-text-can-be-a-goal":              anyText,
		"notes-of-many-tasks-come-in-at-once": concurrent,
	} {
		t.Run(name, func(t *testing.T) { check(t, open(t)) })
	}
}

func put(t *testing.T, s notes.Store, scope, goal, summary string) {
	t.Helper()
	if err := s.Put(t.Context(), scope, notes.Note{Goal: goal, Summary: summary}, long); err != nil {
		t.Fatalf("Put(%s, %s) = %v", scope, goal, err)
	}
}

// expect compares the goals and summaries of a scope.
func expect(t *testing.T, s notes.Store, scope string, want ...string) {
	t.Helper()
	notes, err := s.Notes(t.Context(), scope)
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

func empty(t *testing.T, s notes.Store) {
	expect(t, s, "none")
	if err := s.Forget(t.Context(), "none", "nothing"); err != nil {
		t.Errorf("Forget of what is not there = %v", err)
	}
}

func newestFirst(t *testing.T, s notes.Store) {
	put(t, s, "a", "one", "1")
	put(t, s, "a", "two", "2")
	put(t, s, "a", "three", "3")
	expect(t, s, "a", "three=3", "two=2", "one=1")
}

func oneNote(t *testing.T, s notes.Store) {
	put(t, s, "a", "one", "1")
	put(t, s, "a", "two", "2")
	put(t, s, "a", "one", "better")
	expect(t, s, "a", "one=better", "two=2")
}

func scopes(t *testing.T, s notes.Store) {
	put(t, s, "a", "goal", "of a")
	put(t, s, "b", "goal", "of b")
	expect(t, s, "a", "goal=of a")
	expect(t, s, "b", "goal=of b")
}

func forget(t *testing.T, s notes.Store) {
	put(t, s, "a", "one", "1")
	put(t, s, "a", "two", "2")
	if err := s.Forget(t.Context(), "a", "one"); err != nil {
		t.Fatal(err)
	}
	expect(t, s, "a", "two=2")
	put(t, s, "a", "one", "again")
	expect(t, s, "a", "one=again", "two=2")
}

func anyText(t *testing.T, s notes.Store) {
	goal := "Why is *.go > 3? \n\t ünï 🙂 " + string(make([]byte, 2000))
	put(t, s, "a", goal, "found")
	expect(t, s, "a", goal+"=found")
}

func concurrent(t *testing.T, s notes.Store) {
	const tasks = 8
	var wg sync.WaitGroup
	errs := make([]error, tasks)
	for i := range tasks {
		wg.Go(func() {
			errs[i] = s.Put(t.Context(), "a", notes.Note{Goal: string(rune('a' + i)), Summary: "s"}, long)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if notes, err := s.Notes(t.Context(), "a"); err != nil || len(notes) != tasks {
		t.Errorf("Notes = %d notes, %v; want %d", len(notes), err, tasks)
	}
}
