package sessions

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/loop"
)

func TestAgesHaveOneUnit(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 1500 * time.Millisecond: "1s", 119 * time.Second: "1m", 23 * time.Hour: "23h", 50 * time.Hour: "2d",
	} {
		if got := age(d); got != want {
			t.Errorf("age(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestATitleIsTheFirstWordsOfAUser(t *testing.T) {
	t.Parallel()
	s := &loop.State{Transcript: []content.Item{content.SystemText("Be brief."), content.UserText("Fix\n the  typos " + strings.Repeat("x", 90))}}
	if got := titleOf(s); !strings.HasPrefix(got, "Fix the typos xxx") || len([]rune(got)) != titleWidth || !strings.HasSuffix(got, "…") {
		t.Errorf("title %q", got)
	}
	if got := titleOf(&loop.State{}); got != "" {
		t.Errorf("title %q of nothing", got)
	}
}

func TestSessionsAreSorted(t *testing.T) {
	t.Parallel()
	rows := []summary{
		{Session: "old", Changed: 1, Turns: 9, Usage: app.Usage{InputTokens: 5}},
		{Session: "new", Changed: 3, Turns: 1, Usage: app.Usage{InputTokens: 5}},
		{Session: "big", Changed: 2, Turns: 1, Usage: app.Usage{InputTokens: 2, OutputTokens: 4}},
	}
	for by, want := range map[string]string{
		"age": "new big old", "session": "big new old", "tokens": "big new old", "turns": "old big new",
	} {
		l := lister{sort: cli.NewChoice(by)}
		slices.SortFunc(rows, l.compare)
		var got []string
		for _, r := range rows {
			got = append(got, string(r.Session))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("by %s: %s, want %s", by, got, want)
		}
	}
}
