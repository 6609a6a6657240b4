package registry

import (
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/internal/provider"
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
		remote(Provider{
			Name: "anthropic", Keys: []string{"ANTHROPIC_API_KEY"}, Address: "ANTHROPIC_BASE_URL", Default: "claude-sonnet-5-5",
		}, func(name, key, base string) anthropic.Config {
			return anthropic.Config{Model: name, APIKey: key, BaseURL: base}
		}, anthropic.New),
		remote(Provider{
			Name: "openai", Keys: []string{"OPENAI_API_KEY"}, Address: "OPENAI_BASE_URL", Default: "gpt-6.1-sol", Foreign: true,
		}, func(name, key, base string) openai.Config {
			return openai.Config{Model: name, APIKey: key, BaseURL: base}
		}, openai.New),
		remote(Provider{
			Name: "gemini", Keys: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, Address: "GOOGLE_GEMINI_BASE_URL", Default: "gemini-flash-latest",
		}, func(name, key, base string) gemini.Config {
			return gemini.Config{Model: name, APIKey: key, BaseURL: base}
		}, gemini.New),
		{Name: "fallback", Usage: "fallback:NAME,NAME", Options: []string{"on"}, Open: openFallback},
		{Name: "record", Usage: "record:FILE?model=NAME", Options: []string{"model"}, Open: openRecord},
		{Name: "replay", Usage: "replay:FILE", Options: []string{"match"}, Open: openReplay},
		{Name: "scripted", Usage: "scripted:FILE", Open: openScript},
		{Name: Demo, Usage: Demo, Open: openDemo},
	}
}

// remote completes a provider with a network. Its options are those of its
// configuration, which config returns for the name of a model, a key and a base URL.
func remote[C any, M model.Model](p Provider, config func(name, key, base string) C, open func(C) (M, error)) Provider {
	p.Usage = p.Name + ":MODEL"
	p.Options = append(provider.OptionNames(*new(C)), "base_url")
	p.Open = func(s Setup) (model.Model, error) {
		switch {
		case s.Ref.Model == "":
			return nil, fmt.Errorf("which model? write %s", p.Usage)
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
		cfg := config(s.Ref.Model, key, base)
		if err := provider.SetOptions(&cfg, s.Ref.Options); err != nil {
			return nil, err
		}
		m, err := made(open(cfg))
		if err != nil {
			return nil, err
		}
		return s.withPrice(m)
	}
	return p
}

func noData(s Setup) error {
	return fmt.Errorf("the %s model takes no data, but got %d bytes", s.Ref.Provider, len(s.Data))
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
		return nil, errors.New("the session was started without the script's content: a published agent has only its name. Start the session with --agent FILE or --model scripted:FILE, which send the script")
	}
	return made(scripted.Load(s.file()))
}
