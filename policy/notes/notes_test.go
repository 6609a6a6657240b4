package notes_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/internal/testing/memorytest"
	"github.com/turnlog/turnlog/policy/notes"
)

func TestLocalIsAStore(t *testing.T) {
	t.Parallel()
	memorytest.Run(t, func(testing.TB) notes.Store {
		return notes.NewLocal()
	})
}

// Hosts use both as their memory.
var (
	_ extension.Notes = (*notes.Notes)(nil)
	_ extension.Notes = notes.Keeper(nil)
)

func open(t *testing.T, cfg notes.Config) *notes.Notes {
	t.Helper()
	m, err := notes.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRecallReturnsTheMostSimilarNotes(t *testing.T) {
	t.Parallel()
	m := open(t, notes.Config{Store: notes.NewLocal()})
	for goal, summary := range map[string]string{
		"Fix the parser":        "quotes were not closed",
		"Speed up the parser":   "tables help the parser most",
		"Write the parser docs": "done",
		"Bake bread":            "with seeds",
		"Test the parser":       "done",
		"Rename the parser":     "done",
		"Profile the parser":    "done",
	} {
		if err := m.Remember(t.Context(), goal, summary+"\n and  so on"); err != nil {
			t.Fatal(err)
		}
	}
	items, err := m.Recall(t.Context(), "Why is the parser slow, speed?")
	if err != nil || len(items) != 1 || items[0].Kind != content.Context {
		t.Fatalf("Recall = %+v, %v; want one Context item", items, err)
	}
	text := items[0].Text()
	if !strings.Contains(text, "- Speed up the parser: tables help the parser most and so on (") {
		t.Errorf("the best note is not there, in one line:\n%s", text)
	}
	if strings.Contains(text, "bread") || strings.Count(text, "\n- ") != 5 {
		t.Errorf("want five of the notes about the parser, got\n%s", text)
	}
	if items, err := m.Recall(t.Context(), "Paint the fence"); err != nil || items != nil {
		t.Errorf("Recall of an unknown topic = %v, %v", items, err)
	}
}

func TestNotesExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := open(t, notes.Config{Store: notes.NewLocal(), TTL: time.Hour})
		if err := m.Remember(t.Context(), "Fix the parser", "done"); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			after time.Duration
			want  int
		}{{time.Hour - 1, 1}, {1, 0}} {
			<-time.After(step.after)
			if items, err := m.Recall(t.Context(), "parser"); err != nil || len(items) != step.want {
				t.Errorf("after %s more: %v, %v; want %d", step.after, items, err, step.want)
			}
		}
	})
}

func TestAnEmptySummaryIsNotStored(t *testing.T) {
	t.Parallel()
	store := notes.NewLocal()
	m := open(t, notes.Config{Store: store, Scope: "a"})
	if err := m.Remember(t.Context(), "goal", " \n"); err != nil {
		t.Fatal(err)
	}
	if notes, err := store.Notes(t.Context(), "a"); err != nil || len(notes) != 0 {
		t.Errorf("Notes = %v, %v; want none", notes, err)
	}
	if err := m.Remember(t.Context(), strings.Repeat("ü", 5000), "long"); err != nil {
		t.Fatal(err)
	}
	if notes, err := store.Notes(t.Context(), "a"); err != nil || len([]rune(notes[0].Goal)) != 2000 {
		t.Errorf("Notes = %d, %v; want one, cut to 2000 characters", len(notes), err)
	}
}

// known is a source with one text, and perhaps an error.
type known struct {
	text string
	err  error
}

func (k known) Recall(context.Context, string) ([]content.Item, error) {
	if k.text == "" {
		return nil, k.err
	}
	return []content.Item{content.UserText(k.text)}, k.err
}

func TestAPlanRecallsFromAllSources(t *testing.T) {
	t.Parallel()
	broken := errors.New("no such folder")
	m := open(t, notes.Config{Store: notes.NewLocal()})
	p := notes.Plan(m, known{text: "first"}, known{err: broken}, known{text: "third"})
	if err := p.Remember(t.Context(), "parser", "done"); err != nil {
		t.Fatal(err)
	}
	items, err := p.Recall(t.Context(), "the parser")
	if !errors.Is(err, broken) || len(items) != 3 || items[1].Text() != "third" {
		t.Errorf("Recall = %v, %v; want three items and the error of the fourth source", items, err)
	}
	if err := notes.Plan(nil).Remember(t.Context(), "goal", "summary"); err != nil {
		t.Errorf("Remember of a plan without notes = %v", err)
	}
}

func TestInvalidConfigsAreRefused(t *testing.T) {
	t.Parallel()
	store := notes.NewLocal()
	for want, cfg := range map[string]notes.Config{
		"Store is required":    {},
		`Scope "a b"`:          {Store: store, Scope: "a b"},
		"must not be negative": {Store: store, TTL: -1},
	} {
		if _, err := notes.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%+v) = %v, want %q", cfg, err, want)
		}
	}
}

// failing is a store that cannot be reached.
type failing struct {
	notes.Store
	err error
}

func (f failing) Put(context.Context, string, notes.Note, time.Duration) error { return f.err }

func (f failing) Notes(context.Context, string) ([]notes.Note, error) { return nil, f.err }

func TestErrorsOfAStoreAreReturned(t *testing.T) {
	t.Parallel()
	down := errors.New("no connection")
	m := open(t, notes.Config{Store: failing{err: down}})
	if err := m.Remember(t.Context(), "goal", "done"); !errors.Is(err, down) {
		t.Errorf("Remember = %v, want %v", err, down)
	}
	if _, err := m.Recall(t.Context(), "goal"); !errors.Is(err, down) {
		t.Errorf("Recall = %v, want %v", err, down)
	}
}
