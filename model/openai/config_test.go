package openai

import (
	"strings"
	"testing"
)

func TestBaseURLDeterminesTheAPI(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		base string
		api  API
		want API
	}{
		{"", "", Responses},
		{"https://api.openai.com/v1/", "", Responses},
		{"https://eu.api.openai.com/v1", "", Responses},
		{"https://api.openai.com/v1", Chat, Chat},
		{"http://localhost:11434/v1", "", Chat},
		{"https://notapi.openai.com.example/v1", "", Chat},
		{"http://localhost:8000/v1", Responses, Responses},
	} {
		m, err := New(Config{Model: "m", BaseURL: tt.base, API: tt.api, APIKey: "k"})
		if err != nil {
			t.Errorf("New(%q) = %v", tt.base, err)
			continue
		}
		if m.cfg.API != tt.want {
			t.Errorf("base URL %q, api %q: %s, want %s", tt.base, tt.api, m.cfg.API, tt.want)
		}
	}
}

func TestInvalidSettingsAreRejected(t *testing.T) {
	t.Parallel()
	hot := 2.5
	for want, cfg := range map[string]Config{
		"no model":                  {APIKey: "k"},
		"needs an API key":          {Model: "m"},
		"base_url: want":            {Model: "m", BaseURL: "localhost:11434/v1"},
		"leave out user":            {Model: "m", BaseURL: "http://me:secret@localhost/v1"},
		"query":                     {Model: "m", BaseURL: "http://localhost/v1?key=secret"},
		"blanks or control":         {Model: "m", APIKey: "a b"},
		"temperature=2.5: want 0":   {Model: "m", APIKey: "k", Temperature: &hot},
		"effort=much: want none, m": {Model: "m", APIKey: "k", Effort: "much"},
		"summary=long":              {Model: "m", APIKey: "k", Summary: "long"},
		"api=rest":                  {Model: "m", APIKey: "k", API: "rest"},
		"max_tokens=-1":             {Model: "m", APIKey: "k", MaxTokens: -1},
		"context=-1":                {Model: "m", APIKey: "k", Context: -1},
		"compact=-1":                {Model: "m", APIKey: "k", Compact: -1},
		"need the responses API":    {Model: "m", BaseURL: "http://localhost/v1", Compact: 1000},
	} {
		_, err := New(cfg)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("New(%v) = %v, want one that says %q", cfg, err, want)
		}
	}
}

func TestUsageIsNotRequestedFromMistral(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]bool{
		"https://api.mistral.ai/v1": true, "http://localhost/v1": false, "https://mistral.ai.example/v1": false,
	} {
		m, err := New(Config{Model: "m", BaseURL: base})
		if err != nil {
			t.Fatal(err)
		}
		if *m.cfg.Usage == want {
			t.Errorf("%s: Usage = %t", base, *m.cfg.Usage)
		}
	}
}

func TestCapabilitiesOfKnownModels(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cfg       Config
		reasoning bool
		cache     bool
		window    int
	}{
		{Config{Model: "gpt-4o-mini"}, false, true, 0},
		{Config{Model: "ft:gpt-4.1:us:x"}, false, true, 0},
		{Config{Model: "o4-mini"}, true, true, 0},
		{Config{Model: "gpt-5.2"}, true, true, 0},
		{Config{Model: "gpt-5.2", Context: 5}, true, true, 5},
		{Config{Model: "gpt-4o", BaseURL: "http://localhost/v1"}, true, false, 0},
		{Config{Model: "m", BaseURL: "http://localhost/v1", API: Responses}, true, true, 0},
	} {
		tt.cfg.APIKey = "k"
		m, err := New(tt.cfg)
		if err != nil {
			t.Fatal(err)
		}
		c := m.Capabilities()
		if c.Reasoning != tt.reasoning || c.PromptCache != tt.cache || c.ContextTokens != tt.window {
			t.Errorf("%s: %+v", tt.cfg, c)
		}
		if want := "openai:" + tt.cfg.Model; m.Name() != want {
			t.Errorf("Name = %s, want %s", m.Name(), want)
		}
	}
}

func TestModelsThatCanTurnTheCacheOff(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"gpt-5": false, "gpt-5.5": false, "gpt-5.6": true, "gpt-5.10": true, "gpt-6-astra": true, "gpt-10": true,
		"gpt-4.9": false, "o4": false, "ft:gpt-5.6:x": true, "openai/gpt-6": true, "gpt-oss": false,
	} {
		if got := optsOutOfCache(name); got != want {
			t.Errorf("optsOutOfCache(%s) = %t", name, got)
		}
	}
}
