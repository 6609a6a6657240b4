package compact_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/policy/compact"
)

func TestNewRefusesInvalidConfigs(t *testing.T) {
	t.Parallel()
	always, recent := compact.Always{}, compact.KeepRecent{Items: 1}
	for name, tc := range map[string]struct {
		cfg         compact.Config
		field, says string
	}{
		"no trigger":         {compact.Config{Strategy: recent}, "Trigger", "is required"},
		"no strategy":        {compact.Config{Trigger: always}, "Strategy", "is required"},
		"a point of hooks":   {compact.Config{Trigger: always, Strategy: recent, Points: []extension.Point{extension.PreLlmCall}}, "Points", "pre_llm_call"},
		"everything pinned":  {compact.Config{Trigger: always, Strategy: recent, Pin: []content.Kind{content.Tool}}, "Pin", "tool"},
		"no count":           {compact.Config{Trigger: compact.ItemCount{}, Strategy: recent}, "Trigger", "ItemCount.Max"},
		"no window":          {compact.Config{Trigger: compact.WindowShare{}, Strategy: recent}, "Trigger", "WindowShare.Window"},
		"a share over 1":     {compact.Config{Trigger: compact.WindowShare{Window: 9, Share: 80}, Strategy: recent}, "Trigger", "Share is 80"},
		"any of none":        {compact.Config{Trigger: compact.AnyOf{}, Strategy: recent}, "Trigger", "AnyOf"},
		"any of a wrong one": {compact.Config{Trigger: compact.AnyOf{always, compact.ItemCount{}}, Strategy: recent}, "Trigger", "ItemCount.Max"},
		"any of nil":         {compact.Config{Trigger: compact.AnyOf{nil}, Strategy: recent}, "Trigger", "is required"},
		"keeps nothing":      {compact.Config{Trigger: always, Strategy: compact.KeepRecent{}}, "Strategy", "set one"},
		"keeps both":         {compact.Config{Trigger: always, Strategy: compact.KeepRecent{Items: 1, Turns: 1}}, "Strategy", "set one"},
		"keeps less":         {compact.Config{Trigger: always, Strategy: compact.KeepRecent{Items: -1}}, "Strategy", "set one"},
		"an empty window":    {compact.Config{Trigger: always, Strategy: compact.Window{}}, "Strategy", "Window.Tokens"},
		"no model":           {compact.Config{Trigger: always, Strategy: compact.Summarise{}}, "Strategy", "Summarise.Model"},
		"less than no summary": {
			compact.Config{Trigger: always, Strategy: compact.Summarise{Model: scribe{}, MaxTokens: -1}}, "Strategy", "negative",
		},
		"a summary of all": {
			compact.Config{Trigger: always, Strategy: compact.Summarise{Model: scribe{}, Keep: compact.KeepRecent{Turns: -1}}}, "Strategy", "set one",
		},
		"no steps":        {compact.Config{Trigger: always, Strategy: compact.Pipeline{}}, "Strategy", "no steps"},
		"a wrong step":    {compact.Config{Trigger: always, Strategy: compact.Pipeline{Steps: []compact.Strategy{compact.Window{}}}}, "Strategy", "Window.Tokens"},
		"a wrong target":  {compact.Config{Trigger: always, Strategy: compact.Pipeline{Steps: []compact.Strategy{recent}, Target: -1}}, "Strategy", "Target"},
		"a step that nil": {compact.Config{Trigger: always, Strategy: compact.Pipeline{Steps: []compact.Strategy{nil}}}, "Strategy", "is required"},
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
	cfg := compact.Config{Trigger: compact.Always{}, Strategy: compact.DropReasoning{}}
	for name, want := range map[string]string{"": "compaction", "trim": "trim"} {
		cfg.Name = name
		if c, err := compact.New(cfg); err != nil || c.Name() != want {
			t.Errorf("New(%q) = %v, %v", name, c, err)
		}
	}
}

func TestWhenEachTriggerFires(t *testing.T) {
	t.Parallel()
	count := compact.ItemCount{Max: 2}
	window := compact.WindowShare{Window: 100, Share: 0.5}
	for _, tc := range []struct {
		trigger compact.Trigger
		items   int
		tokens  int64
		reason  string
	}{
		{count, 2, 1000, ""},
		{count, 3, 0, "item_count"},
		{window, 9, 50, ""},
		{window, 9, 51, "context_window"},
		{compact.WindowShare{Window: 100}, 9, 75, ""},
		{compact.WindowShare{Window: 100}, 9, 76, "context_window"},
		{compact.Always{}, 0, 0, "always"},
		{compact.AnyOf{window, count}, 3, 51, "context_window"},
		{compact.AnyOf{window, count}, 3, 50, "item_count"},
		{compact.AnyOf{window, count}, 2, 50, ""},
	} {
		if got := tc.trigger.Fires(compact.View{Items: make([]content.Item, tc.items), Tokens: tc.tokens}); got != tc.reason {
			t.Errorf("%+v at %d items, %d tokens: %q, want %q", tc.trigger, tc.items, tc.tokens, got, tc.reason)
		}
	}
}

func TestATriggerThatDoesNotFireChangesNothing(t *testing.T) {
	t.Parallel()
	c, err := compact.New(compact.Config{Trigger: compact.ItemCount{Max: 3}, Strategy: compact.KeepRecent{Items: 1}})
	if err != nil {
		t.Fatal(err)
	}
	m := mutate(t, c, talk("u a u"))
	if len(m.Items) != 3 || m.OldTokens != 0 || m.NewTokens != 0 || m.Metadata != nil {
		t.Errorf("%+v", m)
	}
}
