package compact_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/policy/compact"
)

func compactor(t testing.TB, s compact.Strategy) *compact.Compactor {
	t.Helper()
	c, err := compact.New(compact.Config{Strategy: s})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mutate(t testing.TB, c extension.Mutator, items []content.Item) extension.Mutation {
	t.Helper()
	m := extension.Mutation{Point: extension.BeforeModel, Session: "s", Turn: "turn-1", Items: content.CloneItems(items)}
	if err := c.Mutate(t.Context(), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestCompactedTranscriptsKeepTheRules checks the rules of the package with
// random transcripts and strategies.
func TestCompactedTranscriptsKeepTheRules(t *testing.T) {
	t.Parallel()
	dirty := 0
	for seed := range uint64(2000) {
		before, s := transcript(seed), strategy(seed)
		pristine := fmt.Sprintf("%+v", before)
		c := compactor(t, s)
		m := mutate(t, c, before)
		after := m.Items
		problems := promises(before, after)
		if fmt.Sprintf("%+v", before) != pristine {
			problems = append(problems, "it edited in place")
		}
		if changed := !reflect.DeepEqual(before, after); changed {
			dirty++
			if m.NewTokens >= m.OldTokens {
				problems = append(problems, fmt.Sprintf("it made %d tokens of %d", m.NewTokens, m.OldTokens))
			}
		} else if m.NewTokens != m.OldTokens {
			problems = append(problems, "nothing changed but the size")
		}
		if again := mutate(t, c, before); !reflect.DeepEqual(again.Items, after) || again.NewTokens != m.NewTokens {
			problems = append(problems, "it does not do the same twice")
		}
		if next := mutate(t, c, after); !reflect.DeepEqual(next.Items, after) || next.Usage != (content.Usage{}) || next.OldTokens != m.NewTokens {
			problems = append(problems, fmt.Sprintf("it compacts its own result: %d of %d tokens, usage %+v\n%s",
				next.NewTokens, next.OldTokens, next.Usage, cmp.Diff(kinds(after), kinds(next.Items))))
		}
		if len(problems) > 0 {
			t.Fatalf("seed %d, %#v: %q\nbefore: %s\nafter: %s", seed, s, problems, kinds(before), kinds(after))
		}
	}
	if dirty < 700 {
		t.Errorf("only %d runs changed something", dirty)
	}
}

// promises returns the broken rules.
func promises(before, after []content.Item) []string {
	var broken []string
	check := func(ok bool, what string, args ...any) {
		if !ok {
			broken = append(broken, fmt.Sprintf(what, args...))
		}
	}
	if i, call, problem := content.Unpaired(after); problem != "" {
		check(false, "item %d: call %s %s", i, call, problem)
	}
	ids := make([]content.ItemID, 0, len(after))
	for _, it := range after {
		ids = append(ids, it.ID)
	}
	order := slices.DeleteFunc(slices.Clone(before), func(it content.Item) bool { return !slices.Contains(ids, it.ID) })
	kept := slices.DeleteFunc(slices.Clone(after), func(it content.Item) bool { return it.ID == "" })
	check(slices.Equal(shape(order), shape(kept)), "the order changed")

	last := len(before) - 1
	check(len(after) > 0 && reflect.DeepEqual(after[len(after)-1].Parts, before[last].Parts), "the last item changed")
	newest := -1
	for i, it := range before {
		if it.Kind == content.System || it.Kind == content.Developer {
			check(slices.Contains(ids, it.ID), "%s %s is gone", it.Kind, it.ID)
		}
		if it.Kind == content.User {
			newest = i
		}
	}
	for i := newest; i >= 0 && before[i].Kind == content.User; i-- {
		check(slices.Contains(ids, before[i].ID), "the newest input %s is gone", before[i].ID)
	}
	asked := false
	for _, it := range after {
		asked = asked || it.Kind == content.User || it.Kind == content.Notification
		answer := it.Kind == content.Assistant && it.FinishReason != content.Compaction || it.Kind == content.Tool
		check(asked || !answer, "%s %s answers nothing", it.Kind, it.ID)
	}
	return append(broken, signed(before, after)...)
}

// signed checks that open rounds kept their reasoning, if they were kept, and that no
// reasoning lost its calls.
func signed(before, after []content.Item) []string {
	var broken []string
	was := make(map[content.ItemID]int)
	end := len(before)
	for end > 0 && before[end-1].Kind != content.Assistant {
		end--
	}
	if end > 0 && len(before[end-1].Calls()) > 0 {
		for ; end > 0 && (before[end-1].Kind == content.Assistant || before[end-1].Kind == content.Tool); end-- {
			was[before[end-1].ID] = reasoning(before[end-1])
		}
	}
	for _, it := range after {
		if n, ok := was[it.ID]; ok && reasoning(it) != n {
			broken = append(broken, fmt.Sprintf("%s lost reasoning while its rounds are open", it.ID))
		}
	}
	for i, it := range after {
		next := i+1 < len(after) && after[i+1].Kind == content.Assistant
		if it.Kind == content.Assistant && reasoning(it) == len(it.Parts) && !next {
			broken = append(broken, fmt.Sprintf("%s is nothing but reasoning", it.ID))
		}
	}
	return broken
}

func reasoning(it content.Item) int {
	n := 0
	for _, p := range it.Parts {
		if p.Kind == content.ReasoningKind {
			n++
		}
	}
	return n
}

func shape(items []content.Item) []string {
	var out []string
	for _, it := range items {
		out = append(out, string(it.Kind)+string(it.ID))
	}
	return out
}

// kinds returns the short form of a transcript.
func kinds(items []content.Item) []string {
	var out []string
	for _, it := range items {
		s := fmt.Sprintf("%s%s", it.Kind[:1], it.ID)
		for _, p := range it.Parts {
			switch {
			case p.Call != nil:
				s += " >" + string(p.Call.ID)
			case p.Result != nil:
				s += " <" + string(p.Result.CallID) + ":" + string(p.Result.Status)
			case p.Kind == content.ReasoningKind:
				s += " think"
			default:
				s += " text"
			}
		}
		out = append(out, s)
	}
	return out
}
