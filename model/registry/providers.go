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
			Name: "anthropic", Usage: "anthropic:MODEL", Open: openAnthropic,
			Keys: []string{"ANTHROPIC_API_KEY"}, Address: "ANTHROPIC_BASE_URL", Default: "claude-sonnet-5-5",
			Options: []string{
				"max_tokens", "temperature", "thinking", "thinking_display", "effort", "cache", "compact_at",
				"strict", "eager_input", "context", "base_url",
			},
		},
		{
			Name: "openai", Usage: "openai:MODEL", Open: openOpenAI,
			Keys: []string{"OPENAI_API_KEY"}, Address: "OPENAI_BASE_URL", Default: "gpt-6.1-sol", Foreign: true,
			Options: []string{"api", "max_tokens", "temperature", "effort", "summary", "compact", "usage", "context", "base_url"},
		},
		{
			Name: "gemini", Usage: "gemini:MODEL", Open: openGemini,
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

// remote is the common setup of models behind a network.
type remote struct {
	key, base string
	numbers   *numbers
}

func (s Setup) remote() (remote, error) {
	if s.Ref.Model == "" {
		return remote{}, fmt.Errorf("which model? write %s", s.provider.Usage)
	}
	if s.Data != nil {
		return remote{}, noData(s)
	}
	base, err := s.BaseURL()
	if err != nil {
		return remote{}, err
	}
	key, err := s.Key(base)
	if err != nil {
		return remote{}, err
	}
	return remote{key: key, base: base, numbers: &numbers{setup: s}}, nil
}

func noData(s Setup) error {
	return fmt.Errorf("the %s model takes no data, but got %d bytes", s.Ref.Provider, len(s.Data))
}

func openAnthropic(s Setup) (model.Model, error) {
	r, err := s.remote()
	if err != nil {
		return nil, err
	}
	cfg := anthropic.Config{
		Model: s.Ref.Model, APIKey: r.key, BaseURL: r.base,
		MaxTokens: r.numbers.int64("max_tokens"), Temperature: r.numbers.float("temperature"),
		Thinking: s.text("thinking"), ThinkingDisplay: s.text("thinking_display"), Effort: s.text("effort"),
		Cache: s.text("cache"), CompactAt: r.numbers.int64("compact_at"),
		Strict: r.numbers.bool("strict", false), EagerInput: r.numbers.bool("eager_input", false),
		ContextTokens: r.numbers.int("context"),
	}
	if r.numbers.err != nil {
		return nil, r.numbers.err
	}
	return made(anthropic.New(cfg))
}

func openOpenAI(s Setup) (model.Model, error) {
	r, err := s.remote()
	if err != nil {
		return nil, err
	}
	cfg := openai.Config{
		Model: s.Ref.Model, APIKey: r.key, BaseURL: r.base, API: openai.API(s.text("api")),
		MaxTokens: r.numbers.int("max_tokens"), Temperature: r.numbers.float("temperature"),
		Effort: s.text("effort"), Summary: s.text("summary"), Compact: r.numbers.int("compact"),
		NoUsage: !r.numbers.bool("usage", true), Context: r.numbers.int("context"),
	}
	if r.numbers.err != nil {
		return nil, r.numbers.err
	}
	return made(openai.New(cfg))
}

func openGemini(s Setup) (model.Model, error) {
	r, err := s.remote()
	if err != nil {
		return nil, err
	}
	cfg := gemini.Config{
		Model: s.Ref.Model, APIKey: r.key, BaseURL: r.base,
		MaxTokens: r.numbers.int("max_tokens"), Temperature: r.numbers.float("temperature"),
		ThinkingLevel: s.text("thinking_level"), Thoughts: r.numbers.bool("thoughts", false), Context: r.numbers.int("context"),
	}
	if _, given := s.Ref.Option("thinking_budget"); given {
		budget := r.numbers.int("thinking_budget")
		cfg.ThinkingBudget = &budget
	}
	if r.numbers.err != nil {
		return nil, r.numbers.err
	}
	return made(gemini.New(cfg))
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
