package registry

import (
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/anthropic"
	"github.com/turnlog/turnlog/model/demo"
	"github.com/turnlog/turnlog/model/gemini"
	"github.com/turnlog/turnlog/model/openai"
	"github.com/turnlog/turnlog/model/scripted"
)

// Providers returns Turnlog's providers. Those with a key are in the order of defaults.
func Providers() []Provider {
	return []Provider{
		{
			Name: "anthropic", Usage: "anthropic:MODEL", Open: remote(anthropicConfig, anthropic.New),
			Keys: []string{"ANTHROPIC_API_KEY"}, Address: "ANTHROPIC_BASE_URL", Default: "claude-sonnet-5-5",
			Options: []string{
				"max_tokens", "temperature", "thinking", "thinking_display", "effort", "cache", "compact_at",
				"strict", "eager_input", "context", "base_url",
			},
		},
		{
			Name: "openai", Usage: "openai:MODEL", Open: remote(openAIConfig, openai.New),
			Keys: []string{"OPENAI_API_KEY"}, Address: "OPENAI_BASE_URL", Default: "gpt-6.1-sol", Foreign: true,
			Options: []string{"api", "max_tokens", "temperature", "effort", "summary", "compact", "usage", "context", "base_url"},
		},
		{
			Name: "gemini", Usage: "gemini:MODEL", Open: remote(geminiConfig, gemini.New),
			Keys: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, Address: "GOOGLE_GEMINI_BASE_URL", Default: "gemini-flash-latest",
			Options: []string{"max_tokens", "temperature", "thinking_level", "thinking_budget", "thoughts", "context", "base_url"},
		},
		{Name: "fallback", Usage: "fallback:NAME,NAME", Options: []string{"on"}, Open: openFallback},
		{Name: "record", Usage: "record:FILE?model=NAME", Options: []string{"model"}, Open: openRecord},
		{Name: "replay", Usage: "replay:FILE", Open: openReplay},
		{Name: "scripted", Usage: "scripted:FILE", Open: openScript},
		{Name: "demo", Usage: "demo", Open: openDemo},
	}
}

// remote returns a function that opens a model of a provider with a network: config
// returns its configuration for a key and a base URL.
func remote[C any, M model.Model](config func(s Setup, o *options, key, base string) C, open func(C) (M, error)) func(Setup) (model.Model, error) {
	return func(s Setup) (model.Model, error) {
		switch {
		case s.Ref.Model == "":
			return nil, fmt.Errorf("which model? write %s", s.provider.Usage)
		case s.Data != nil:
			return nil, noData(s)
		}
		base, err := s.BaseURL()
		if err != nil {
			return nil, err
		}
		key, err := s.Key(base)
		if err != nil {
			return nil, err
		}
		o := &options{ref: s.Ref}
		cfg := config(s, o, key, base)
		if o.err != nil {
			return nil, o.err
		}
		return made(open(cfg))
	}
}

func noData(s Setup) error {
	return fmt.Errorf("the %s model takes no data, but got %d bytes", s.Ref.Provider, len(s.Data))
}

func anthropicConfig(s Setup, o *options, key, base string) anthropic.Config {
	return anthropic.Config{
		Model: s.Ref.Model, APIKey: key, BaseURL: base,
		MaxTokens: int64(o.int("max_tokens")), Temperature: o.float("temperature"),
		Thinking: s.text("thinking"), ThinkingDisplay: s.text("thinking_display"), Effort: s.text("effort"),
		Cache: s.text("cache"), CompactAt: int64(o.int("compact_at")),
		Strict: o.bool("strict", false), EagerInput: o.bool("eager_input", false), ContextTokens: o.int("context"),
	}
}

func openAIConfig(s Setup, o *options, key, base string) openai.Config {
	return openai.Config{
		Model: s.Ref.Model, APIKey: key, BaseURL: base, API: openai.API(s.text("api")),
		MaxTokens: o.int("max_tokens"), Temperature: o.float("temperature"),
		Effort: s.text("effort"), Summary: s.text("summary"), Compact: o.int("compact"),
		NoUsage: !o.bool("usage", true), Context: o.int("context"),
	}
}

func geminiConfig(s Setup, o *options, key, base string) gemini.Config {
	cfg := gemini.Config{
		Model: s.Ref.Model, APIKey: key, BaseURL: base,
		MaxTokens: o.int("max_tokens"), Temperature: o.float("temperature"),
		ThinkingLevel: s.text("thinking_level"), Thoughts: o.bool("thoughts", false), Context: o.int("context"),
	}
	if s.Ref.Options.Has("thinking_budget") {
		cfg.ThinkingBudget = new(o.int("thinking_budget"))
	}
	return cfg
}

// made returns a nil interface on error, instead of one with a nil pointer.
func made[M model.Model](m M, err error) (model.Model, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

func openDemo(s Setup) (model.Model, error) {
	if s.Ref.Model != "" {
		return nil, fmt.Errorf("there is one demo model: write demo, without %q", s.Ref.Model)
	}
	if s.Data != nil {
		return nil, noData(s)
	}
	return demo.New(), nil
}

func openScript(s Setup) (model.Model, error) {
	switch {
	case s.Ref.Model == "":
		return nil, errors.New("which script? write scripted:FILE")
	case s.Data != nil:
		return made(scripted.Parse(s.Ref.Model, s.Data))
	case s.Shared:
		return nil, errors.New("the session was started without the script's content")
	}
	return made(scripted.Load(s.file()))
}
