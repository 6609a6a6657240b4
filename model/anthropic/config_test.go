package anthropic_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/model/anthropic"
)

func TestInvalidConfigsAreRejected(t *testing.T) {
	t.Parallel()
	hot := 1.5
	for want, change := range map[string]func(*anthropic.Config){
		"no model":                    func(c *anthropic.Config) { c.Model = "" },
		"no API key":                  func(c *anthropic.Config) { c.APIKey = "" },
		"the API key contains blanks": func(c *anthropic.Config) { c.APIKey = canary + "\n" },
		"base_url: want http":         func(c *anthropic.Config) { c.BaseURL = "localhost:1" },
		"max_tokens=-1":               func(c *anthropic.Config) { c.MaxTokens = -1 },
		"max_tokens=2000":             func(c *anthropic.Config) { c.MaxTokens, c.Thinking = 2000, "2000" },
		"temperature=1.5":             func(c *anthropic.Config) { c.Temperature = &hot },
		"thinking=1023":               func(c *anthropic.Config) { c.Thinking = "1023" },
		"thinking=much":               func(c *anthropic.Config) { c.Thinking = "much" },
		"thinking_display=loud":       func(c *anthropic.Config) { c.Thinking, c.ThinkingDisplay = "adaptive", "loud" },
		"needs thinking=adaptive":     func(c *anthropic.Config) { c.ThinkingDisplay = "omitted" },
		"effort=some":                 func(c *anthropic.Config) { c.Effort = "some" },
		"cache=always":                func(c *anthropic.Config) { c.Cache = "always" },
		"compact_at=49999":            func(c *anthropic.Config) { c.CompactAt = 49_999 },
		"context=-1":                  func(c *anthropic.Config) { c.ContextTokens = -1 },
	} {
		cfg := anthropic.Config{Model: "claude-test", APIKey: canary}
		change(&cfg)
		m, err := anthropic.New(cfg)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), canary) {
			t.Errorf("New = %v, %v, want an error with %q", m, err, want)
		}
	}
}

func TestConfigDoesNotShowTheKey(t *testing.T) {
	t.Parallel()
	cfg := anthropic.Config{Model: "claude-test", APIKey: canary}
	raw, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{fmt.Sprintf("%v %+v %#v %s %q", cfg, cfg, cfg, cfg, cfg), fmt.Sprintf("%+v", &cfg), string(raw)} {
		if strings.Contains(shown, canary) || !strings.Contains(shown, "anthropic:claude-test") {
			t.Errorf("shown as %s", strings.ReplaceAll(shown, canary, "[THE KEY]"))
		}
	}
}

func TestNameAndCapabilities(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  anthropic.Config
		want int
	}{
		{anthropic.Config{Model: "claude-test", APIKey: canary}, 200_000},
		{anthropic.Config{Model: "claude-test", APIKey: canary, ContextTokens: 1_000_000}, 1_000_000},
		{anthropic.Config{Model: "other", BaseURL: "http://localhost:1"}, 0},
	} {
		m, err := anthropic.New(c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		caps := m.Capabilities()
		if m.Name() != "anthropic:"+c.cfg.Model || caps.ContextTokens != c.want || !caps.Tools || !caps.PromptCache || !caps.OutputSchema {
			t.Errorf("%s: %+v", m.Name(), caps)
		}
	}
}
