package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/loop"
)

func TestATitleIsTheFirstWordsOfAUser(t *testing.T) {
	t.Parallel()
	s := &loop.State{Transcript: []content.Item{content.SystemText("Be brief."), content.UserText("Fix\n the  typos " + strings.Repeat("x", 90))}}
	if got := TitleOf(s); !strings.HasPrefix(got, "Fix the typos xxx") || len([]rune(got)) != titleWidth || !strings.HasSuffix(got, "…") {
		t.Errorf("title %q", got)
	}
	if got := TitleOf(&loop.State{}); got != "" {
		t.Errorf("title %q of nothing", got)
	}
}

func TestSessionsAreSorted(t *testing.T) {
	t.Parallel()
	rows := []*Summary{
		{Session: "old", Changed: 1, Turns: 9, Usage: Usage{InputTokens: 5}},
		{Session: "new", Changed: 3, Turns: 1, Usage: Usage{InputTokens: 5}},
		{Session: "big", Changed: 2, Turns: 1, Usage: Usage{InputTokens: 2, OutputTokens: 4}},
	}
	for by, want := range map[string]string{
		"age": "new big old", "session": "big new old", "tokens": "big new old", "turns": "old big new",
	} {
		slices.SortFunc(rows, Query{Sort: by}.compare)
		var got []string
		for _, r := range rows {
			got = append(got, string(r.Session))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("by %s: %s, want %s", by, got, want)
		}
	}
}
