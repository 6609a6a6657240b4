package compact_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/policy/compact"
)

func TestNewRefusesInvalidConfigs(t *testing.T) {
	t.Parallel()
	recent := compact.KeepRecent{Items: 1}
	for name, tc := range map[string]struct {
		cfg         compact.Config
		field, says string
	}{
		"no strategy":       {compact.Config{}, "Strategy", "is required"},
		"a point of hooks":  {compact.Config{Strategy: recent, Points: []extension.Point{extension.PreLlmCall}}, "Points", "pre_llm_call"},
		"everything pinned": {compact.Config{Strategy: recent, Pin: []content.Kind{content.Tool}}, "Pin", "tool"},
		"a negative count":  {compact.Config{Trigger: compact.Trigger{Items: -1}, Strategy: recent}, "Trigger", "Items is -1"},
		"a negative window": {compact.Config{Trigger: compact.Trigger{Window: -1}, Strategy: recent}, "Trigger", "Window is -1"},
		"a share over 1":    {compact.Config{Trigger: compact.Trigger{Window: 9, Share: 80}, Strategy: recent}, "Trigger", "Share is 80"},
		"a negative share":  {compact.Config{Trigger: compact.Trigger{Window: 9, Share: -1}, Strategy: recent}, "Trigger", "Share is -1"},
		"keeps nothing":     {compact.Config{Strategy: compact.KeepRecent{}}, "Strategy", "set one"},
		"keeps both":        {compact.Config{Strategy: compact.KeepRecent{Items: 1, Turns: 1}}, "Strategy", "set one"},
		"keeps less":        {compact.Config{Strategy: compact.KeepRecent{Items: -1}}, "Strategy", "set one"},
		"an empty window":   {compact.Config{Strategy: compact.Window{}}, "Strategy", "Window.Tokens"},
		"no model":          {compact.Config{Strategy: compact.Summarise{}}, "Strategy", "Summarise.Model"},
		"less than no summary": {
			compact.Config{Strategy: compact.Summarise{Model: scribe{}, MaxTokens: -1}}, "Strategy", "negative",
		},
		"a summary of all": {
			compact.Config{Strategy: compact.Summarise{Model: scribe{}, Keep: compact.KeepRecent{Turns: -1}}}, "Strategy", "set one",
		},
		"no steps":        {compact.Config{Strategy: compact.Pipeline{}}, "Strategy", "no steps"},
		"a wrong step":    {compact.Config{Strategy: compact.Pipeline{Steps: []compact.Strategy{compact.Window{}}}}, "Strategy", "Window.Tokens"},
		"a wrong target":  {compact.Config{Strategy: compact.Pipeline{Steps: []compact.Strategy{recent}, Target: -1}}, "Strategy", "Target"},
		"a step that nil": {compact.Config{Strategy: compact.Pipeline{Steps: []compact.Strategy{nil}}}, "Strategy", "is required"},
	} {
		_, err := compact.New(tc.cfg)
		e, ok := errors.AsType[*compact.ConfigError](err)
		if !ok || e.Field != tc.field || !strings.Contains(e.Error(), tc.says) {
			t.Errorf("%s: New = %v, want %s … %s", name, err, tc.field, tc.says)
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
	odd := compact.Trigger{Func: func(v compact.View) string { return map[int]string{1: "odd"}[len(v.Items)%2] }}
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
		{odd, 3, 3, "odd"},
		{odd, 2, 2, ""},
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
