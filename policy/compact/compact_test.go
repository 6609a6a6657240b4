package compact_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/policy/compact"
)

// talk returns a transcript from its short form: "s" system, "d" developer, "u" user, "n"
// notification, "x" context, "a" a reply; "a>c" one with the call c, "a?>c" one with
// reasoning before it, "t<c" the result, "t!c" a failed one, "t-c" a denied one.
func talk(words string) []content.Item {
	kinds := map[byte]content.Kind{
		's': content.System, 'd': content.Developer, 'u': content.User, 'n': content.Notification,
		'x': content.Context, 'a': content.Assistant, 't': content.Tool,
	}
	var items []content.Item
	for i, w := range strings.Fields(words) {
		it := content.Item{ID: content.ItemID("i" + string(rune('a'+i))), Kind: kinds[w[0]]}
		part := func(p content.Part) { it.Parts = append(it.Parts, p) }
		result := func(id string, s content.Status) {
			part(content.ResultPart(content.NewResult(content.CallID(id), "tool", s, "result")))
		}
		for p := range strings.SplitSeq(w[1:], ",") {
			switch {
			case p == "":
				part(content.TextPart("text of " + w))
			case p == "?":
				part(content.Part{Kind: content.ReasoningKind, Text: "hm"})
			case p[0] == '>':
				part(content.CallPart(content.ToolCall{ID: content.CallID(p[1:]), Name: "tool"}))
			case p[0] == '<':
				result(p[1:], content.StatusOK)
			case p[0] == '!':
				result(p[1:], content.StatusError)
			case p[0] == '-':
				result(p[1:], content.StatusDenied)
			}
		}
		items = append(items, it)
	}
	return items
}

func short(items []content.Item) string {
	var words []string
	for _, it := range items {
		w := map[bool]string{true: "x", false: string(it.Kind[:1])}[it.Kind == content.Context]
		var parts []string
		for _, p := range it.Parts {
			switch {
			case p.Call != nil:
				parts = append(parts, ">"+string(p.Call.ID))
			case p.Result != nil:
				mark := map[content.Status]string{content.StatusOK: "<", content.StatusError: "!", content.StatusDenied: "-"}
				parts = append(parts, mark[p.Result.Status]+string(p.Result.CallID))
			case p.Kind == content.ReasoningKind:
				parts = append(parts, "?")
			default:
				parts = append(parts, "")
			}
		}
		words = append(words, w+strings.Join(parts, ","))
	}
	return strings.Join(words, " ")
}

func TestEachStrategyKeepsTheRightItems(t *testing.T) {
	t.Parallel()
	recent := func(n int) compact.Strategy { return compact.KeepRecent{Items: n} }
	turns := func(n int) compact.Strategy { return compact.KeepRecent{Turns: n} }
	for name, tc := range map[string]struct {
		s            compact.Strategy
		before, left string
	}{
		"reasoning":                       {compact.DropReasoning{}, "s u a?, u a? u", "s u a u a? u"},
		"reasoning of an open round":      {compact.DropReasoning{}, "u a?,>c t<c a?,>d t<d", "u a?,>c t<c a?,>d t<d"},
		"reasoning of an open round only": {compact.DropReasoning{}, "u a?,>c t<c a u a?,>d t<d u", "u a>c t<c a u a?,>d t<d u"},
		"reasoning alone in its item":     {compact.DropReasoning{}, "u a? a>c t<c a u", "u a>c t<c a u"},

		"failed":                          {compact.DropFailedResults{}, "u a>c t!c a>d t<d a u", "u a>d t<d a u"},
		"failed beside others":            {compact.DropFailedResults{}, "u a,>c,>d t!c t<d a u", "u a,>d t<d a u"},
		"failed, not seen yet":            {compact.DropFailedResults{}, "u a>b t!b a>c t!c", "u a>c t!c"},
		"denied is not failed":            {compact.DropFailedResults{}, "u a>c t-c a u", "u a>c t-c a u"},
		"failed with its reasoning":       {compact.DropFailedResults{}, "u a?,>c t!c a?,>d t<d", "u a?,>d t<d"},
		"failed in a signed reply":        {compact.DropFailedResults{}, "u a?,>c,>d t!c t<d a>e t<e", "u a?,>c,>d t!c t<d a>e t<e"},
		"failed in a signed reply, later": {compact.DropFailedResults{}, "u a?,>c,>d t!c t<d a u", "u a>d t<d a u"},

		"recent":                           {recent(2), "s u a u a u", "s u a u"},
		"recent, a pair at the edge":       {recent(3), "u a u a>c t<c u", "u a>c t<c u"},
		"recent, parallel calls":           {recent(1), "u a u a>c,>d t<c t<d", "u a>c,>d t<c t<d"},
		"recent, a pair far apart":         {recent(2), "u a u a>c u t<c u", "u a>c u t<c u"},
		"recent keeps the question":        {recent(2), "u a u a>c t<c a>d t<d", "u a>d t<d"},
		"recent keeps the newest input":    {recent(2), "u a u n a>c t<c a>d t<d", "u n a>d t<d"},
		"recent keeps system items":        {recent(1), "s d u s a x u", "s d s u"},
		"recent has no older":              {recent(9), "s u a u", "s u a u"},
		"turns":                            {turns(2), "u a u a>c t<c a u", "u a>c t<c a u"},
		"turns, input in the middle":       {turns(2), "u a u a>c t<c u a>d t<d", "u a>c t<c u a>d t<d"},
		"turns, more than there are":       {turns(math.MaxInt), "u a u a", "u a u a"},
		"turns by notification":            {turns(1), "u a n a", "u n a"},
		"recent, a reply of several items": {recent(1), "u a u a a>c t<c", "u a a>c t<c"},

		"steps": {
			compact.Pipeline{Steps: []compact.Strategy{compact.DropReasoning{}, compact.DropFailedResults{}, recent(3)}},
			"s u a?, u a>c t!c a u a>d t<d a u", "s u a>d t<d a u",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := mutate(t, compactor(t, tc.s), talk(tc.before))
			if got := short(m.Items); got != tc.left {
				t.Errorf("%s\nleft %s\nwant %s", tc.before, got, tc.left)
			}
		})
	}
}

func TestAResultWithoutAStatusFailedIfItIsAnError(t *testing.T) {
	t.Parallel()
	items := talk("u a>c t<c a u")
	result := items[2].Parts[0].Result
	result.Status, result.IsError = "", true // loaded from another system
	if got := short(mutate(t, compactor(t, compact.DropFailedResults{}), items).Items); got != "u a u" {
		t.Errorf("left %s", got)
	}
}

// sized returns items of one part each that cost ten tokens each.
func sized(items []content.Item) []content.Item {
	const text = "24 bytes and 4 tokens..."
	for i := range items {
		switch p := &items[i].Parts[0]; {
		case p.Call != nil:
			p.Call.Name = text
		case p.Result != nil:
			p.Result.Output = []content.Part{content.TextPart(text)}
		default:
			p.Text = text
		}
	}
	return items
}

func TestAWindowIsFilledFromTheEnd(t *testing.T) {
	t.Parallel()
	for want, tokens := range map[string]int64{
		"s u a>c t<c a u": 60, // nothing to do
		"s u a u":         59, // the call and its result go together, the question stays
		"s u":             25, // the newest input and the system
		"s  u":            5,  // kept even if it does not fit
	} {
		m := mutate(t, compactor(t, compact.KeepRecent{Tokens: tokens}), sized(talk("s u a>c t<c a u")))
		if got := short(m.Items); got != strings.ReplaceAll(want, "  ", " ") {
			t.Errorf("%d tokens: left %s, want %s", tokens, got, want)
		}
		if int(m.NewTokens) != 10*len(m.Items) || m.OldTokens != 60 {
			t.Errorf("%d tokens: %d of %d", tokens, m.NewTokens, m.OldTokens)
		}
	}
}

func TestAPipelineStopsAtItsTarget(t *testing.T) {
	t.Parallel()
	p := compact.Pipeline{
		Target: 40,
		Steps:  []compact.Strategy{compact.KeepRecent{Items: 4}, compact.DropFailedResults{}, compact.KeepRecent{Items: 1}},
	}
	m := mutate(t, compactor(t, p), sized(talk("u a u a u a>c t!c a u")))
	if got := short(m.Items); got != "u a u" {
		t.Errorf("left %s", got)
	}
	want := content.Metadata{}.With("reason", "always").With("steps", []string{"keep_recent", "drop_failed_results"}).With("items_removed", 6)
	if diff := cmp.Diff(want, m.Metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

func TestAProvidersCompactionIsKept(t *testing.T) {
	t.Parallel()
	items := talk("u a a>c t<c a u")
	items[1].FinishReason = content.Compaction
	if got := short(mutate(t, compactor(t, compact.KeepRecent{Items: 1}), items).Items); got != "a u" {
		t.Errorf("left %s", got)
	}
}

func TestACompactorRunsBeforeAModelCall(t *testing.T) {
	t.Parallel()
	c := compactor(t, compact.KeepRecent{Items: 1})
	for _, at := range []extension.Point{extension.BeforeModel, extension.AfterToolResult, extension.AfterTurnEnded} {
		m := extension.Mutation{Point: at, Items: talk("u a u a")}
		if err := c.Mutate(t.Context(), &m); err != nil {
			t.Fatal(err)
		}
		acts := len(m.Items) < 4
		if acts != slices.Contains(c.Points(), at) || acts != (at == extension.BeforeModel) || acts != (m.OldTokens > 0) {
			t.Errorf("at %s: left %s, %d tokens", at, short(m.Items), m.OldTokens)
		}
	}
}

// rogue is a strategy that breaks the rules.
type rogue func([]content.Item) ([]content.Item, error)

func (rogue) Name() string { return "rogue" }

func (r rogue) Compact(_ context.Context, j *compact.Job) ([]content.Item, error) {
	j.Spend(content.Usage{InputTokens: 7})
	return r(j.Items)
}

func TestAStrategyThatBreaksARuleChangesNothing(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for want, r := range map[string]rogue{
		"strategy rogue: it changed the system items at the head": func(items []content.Item) ([]content.Item, error) { return items[1:], nil },
		"strategy rogue: it changed the last item":                func(items []content.Item) ([]content.Item, error) { return items[:4], nil },
		"strategy rogue: it dropped the newest input": func(items []content.Item) ([]content.Item, error) {
			return append(items[:3:3], items[4:]...), nil
		},
		"strategy rogue: broken": func([]content.Item) ([]content.Item, error) { return nil, broken },
	} {
		before := talk("s u a u a>c t<c")
		m := extension.Mutation{Point: extension.BeforeModel, Items: before}
		err := compactor(t, r).Mutate(t.Context(), &m)
		if err == nil || err.Error() != want {
			t.Errorf("Mutate = %v, want %s", err, want)
		}
		if diff := cmp.Diff(talk("s u a u a>c t<c"), m.Items); diff != "" || m.Usage.InputTokens != 7 {
			t.Errorf("usage %+v, items (-want +got):\n%s", m.Usage, diff)
		}
	}
}

func TestAStrategyThatGrowsTheTranscriptChangesNothing(t *testing.T) {
	t.Parallel()
	grow := rogue(func(items []content.Item) ([]content.Item, error) {
		return append([]content.Item{items[0], content.SystemText("more and more")}, items[1:]...), nil
	})
	m := mutate(t, compactor(t, grow), talk("s u"))
	if short(m.Items) != "s u" || m.NewTokens != m.OldTokens || m.OldTokens == 0 {
		t.Errorf("left %s, %d of %d tokens", short(m.Items), m.NewTokens, m.OldTokens)
	}
}

func TestACancelledCompactionChangesNothing(t *testing.T) {
	t.Parallel()
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := rogue(func(items []content.Item) ([]content.Item, error) {
		cancel(enough)
		return items[:1], nil
	})
	p := compact.Pipeline{Steps: []compact.Strategy{compact.KeepRecent{Items: 1}, stop}}
	m := extension.Mutation{Point: extension.BeforeModel, Items: talk("u a u")}
	if err := compactor(t, p).Mutate(ctx, &m); !errors.Is(err, enough) || short(m.Items) != "u a u" {
		t.Errorf("Mutate = %v, left %s", err, short(m.Items))
	}
	if err := compactor(t, p).Mutate(ctx, &m); !errors.Is(err, enough) {
		t.Errorf("once more: Mutate = %v", err)
	}
}
