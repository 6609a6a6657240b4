package compact_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/policy/compact"
)

func TestNewRefusesInvalidConfigs(t *testing.T) {
	t.Parallel()
	recent := compact.KeepRecent{Items: 1}
	for says, cfg := range map[string]compact.Config{
		"a strategy is required":      {},
		"{Items:-1":                   {Trigger: compact.Trigger{Items: -1}, Strategy: recent},
		"Window:-1":                   {Trigger: compact.Trigger{Window: -1}, Strategy: recent},
		"Share:80":                    {Trigger: compact.Trigger{Window: 9, Share: 80}, Strategy: recent},
		"Share:-1":                    {Trigger: compact.Trigger{Window: 9, Share: -1}, Strategy: recent},
		"0 items, 0 turns, 0 tokens":  {Strategy: compact.KeepRecent{}},
		"1 items, 1 turns, 0 tokens":  {Strategy: compact.KeepRecent{Items: 1, Turns: 1}},
		"-1 items, 0 turns, 0 tokens": {Strategy: compact.KeepRecent{Items: -1}},
		"0 items, 0 turns, -1 tokens": {Strategy: compact.KeepRecent{Tokens: -1}},
		"a Model is required":         {Strategy: compact.Summarise{}},
		"MaxTokens must not be":       {Strategy: compact.Summarise{Model: scribe{}, MaxTokens: -1}},
		"0 items, -1 turns, 0 tokens": {Strategy: compact.Summarise{Model: scribe{}, Keep: compact.KeepRecent{Turns: -1}}},
		"has 0 steps":                 {Strategy: compact.Pipeline{}},
		"0 items, 2 turns, 3 tokens":  {Strategy: compact.Pipeline{Steps: []compact.Strategy{recent, compact.KeepRecent{Turns: 2, Tokens: 3}}}},
		"the target -1":               {Strategy: compact.Pipeline{Steps: []compact.Strategy{recent}, Target: -1}},
		"config: a strategy is requi": {Strategy: compact.Pipeline{Steps: []compact.Strategy{nil}}},
	} {
		if _, err := compact.New(cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("New = %v, want %q", err, says)
		}
	}
}

func TestTheNameIsCompactionUnlessGiven(t *testing.T) {
	t.Parallel()
	cfg := compact.Config{Strategy: compact.DropReasoning{}}
	for name, want := range map[string]string{"": "compaction", "trim": "trim"} {
		cfg.Name = name
		if c, err := compact.New(cfg); err != nil || c.Name() != want {
			t.Errorf("New(%q) = %v, %v", name, c, err)
		}
	}
}

func TestWhenATriggerFires(t *testing.T) {
	t.Parallel()
	both := compact.Trigger{Items: 2, Window: 100, Share: 0.5}
	for _, tc := range []struct {
		trigger compact.Trigger
		items   int
		tokens  int64
		reason  string
	}{
		{compact.Trigger{Items: 2}, 2, 1000, ""},
		{compact.Trigger{Items: 2}, 3, 3, "item_count"},
		{compact.Trigger{Window: 100, Share: 0.5}, 9, 50, ""},
		{compact.Trigger{Window: 100, Share: 0.5}, 9, 51, "context_window"},
		{compact.Trigger{Window: 100}, 9, 75, ""},
		{compact.Trigger{Window: 100}, 9, 76, "context_window"},
		{compact.Trigger{}, 1, 1, "always"},
		{both, 3, 51, "item_count"},
		{both, 2, 51, "context_window"},
		{both, 2, 50, ""},
	} {
		c, err := compact.New(compact.Config{Trigger: tc.trigger, Strategy: compact.KeepRecent{Items: 1}})
		if err != nil {
			t.Fatal(err)
		}
		items := slices.Repeat(talk("u"), tc.items)
		items[tc.items-1].Usage = &content.Usage{InputTokens: tc.tokens} // what the model counted
		if m := mutate(t, c, items); m.Metadata.Text(compact.MetaReason) != tc.reason {
			t.Errorf("%+v at %d items, %d tokens: %v, want %q", tc.trigger, tc.items, tc.tokens, m.Metadata, tc.reason)
		}
	}
}

func TestATriggerThatDoesNotFireChangesNothing(t *testing.T) {
	t.Parallel()
	c, err := compact.New(compact.Config{Trigger: compact.Trigger{Items: 3}, Strategy: compact.KeepRecent{Items: 1}})
	if err != nil {
		t.Fatal(err)
	}
	m := mutate(t, c, talk("u a u"))
	if len(m.Items) != 3 || m.OldTokens != 0 || m.NewTokens != 0 || m.Metadata != nil {
		t.Errorf("%+v", m)
	}
}
