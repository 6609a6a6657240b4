package openai

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/turnlog/turnlog/internal/provider"
)

// API is one of OpenAI's two HTTP APIs.
type API string

// The APIs.
const (
	Responses API = "responses"
	Chat      API = "chat"
)

// OpenAI is the base URL of OpenAI itself.
const OpenAI = "https://api.openai.com/v1"

const defaultSilence = 5 * time.Minute

// Config configures a [Model]. Model is required.
type Config struct {
	Model   string
	BaseURL string // empty: OpenAI
	API     API    // empty: Responses at OpenAI's own address, Chat at any other

	// APIKey is required at OpenAI's own address. Empty: no Authorization header.
	APIKey string `json:"-"`

	HTTP    *http.Client  `json:"-"` // nil: the default client
	Silence time.Duration // fails a call that receives nothing for this long; zero: 5 minutes, negative: never

	MaxTokens   int      // of a reply, reasoning included; zero: the provider's default
	Temperature *float64 // 0 to 2; nil: the provider's default
	Effort      string   // of reasoning: none, minimal, low, medium, high, xhigh or max; empty: the provider's default
	Summary     string   // of reasoning, only for Responses: auto, concise or detailed; empty: none
	Context     int      // size of the context window; zero: known for some of OpenAI's models, otherwise unknown
	Compact     int      // only for Responses: input tokens at which the provider compacts the context; zero: never

	// NoUsage keeps Chat requests from asking for usage, which some servers reject.
	// It is set automatically for Mistral.
	NoUsage bool
}

// String describes the configuration without the key.
func (c Config) String() string {
	return fmt.Sprintf("%s of %s through %s", c.Model, cmp.Or(c.BaseURL, OpenAI), cmp.Or(string(c.API), "the default API"))
}

// GoString returns String, so that no format verb prints the key.
func (c Config) GoString() string { return c.String() }

func (c Config) withDefaults() Config {
	c.BaseURL = cmp.Or(strings.TrimRight(c.BaseURL, "/"), OpenAI)
	c.Silence = cmp.Or(c.Silence, defaultSilence)
	base, err := url.Parse(c.BaseURL)
	if err != nil {
		return c
	}
	if c.API == "" && ownHost(base.Hostname()) {
		c.API = Responses
	}
	c.API = cmp.Or(c.API, Chat)
	c.NoUsage = c.NoUsage || refusesUsage(base.Hostname())
	return c
}

func (c Config) validate() error {
	if c.Model == "" {
		return errors.New("openai: no model")
	}
	base, err := provider.ParseBaseURL(c.BaseURL)
	if err = errors.Join(err, provider.CheckKey(c.APIKey)); err != nil {
		return fmt.Errorf("openai: %w", err)
	}
	switch {
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return fmt.Errorf("openai: base URL of %s: leave out user, query and fragment", base.Host)
	case c.APIKey == "" && ownHost(base.Hostname()):
		return fmt.Errorf("openai: %s needs an API key", base.Host)
	}
	return c.validateSettings()
}

func (c Config) validateSettings() error {
	oneOf := func(setting, value string, words ...string) error {
		if value == "" || slices.Contains(words, value) {
			return nil
		}
		return fmt.Errorf("openai: %s %q is unknown: use %s", setting, value, strings.Join(words, ", "))
	}
	notNegative := func(setting string, n int) error {
		if n < 0 {
			return fmt.Errorf("openai: %s is %d: want 0 or more", setting, n)
		}
		return nil
	}
	if t := c.Temperature; t != nil && !(*t >= 0 && *t <= 2) {
		return fmt.Errorf("openai: temperature is %v: want 0 to 2", *t)
	}
	if c.API == Chat && (c.Summary != "" || c.Compact != 0) {
		return errors.New("openai: summary and compact need the responses API")
	}
	return errors.Join(
		oneOf("api", string(c.API), string(Responses), string(Chat)),
		oneOf("effort", c.Effort, "none", "minimal", "low", "medium", "high", "xhigh", "max"),
		oneOf("summary", c.Summary, "auto", "concise", "detailed"),
		notNegative("max_tokens", c.MaxTokens),
		notNegative("context", c.Context),
		notNegative("compact", c.Compact),
	)
}

// ownHost reports whether host is OpenAI's, in any region.
func ownHost(host string) bool {
	return host == "api.openai.com" || strings.HasSuffix(host, ".api.openai.com")
}

// refusesUsage reports whether a host rejects requests for usage. Mistral does, but
// sends usage anyway.
func refusesUsage(host string) bool {
	return host == "mistral.ai" || strings.HasSuffix(host, ".mistral.ai")
}

// reasons reports whether a model of OpenAI reasons. The others reject requests for
// encrypted reasoning.
func reasons(name string) bool {
	name = bare(name)
	for _, prefix := range []string{"gpt-3", "gpt-4", "chatgpt-4", "gpt-5-chat"} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return true
}

// windowOf returns the context window of OpenAI's older models, or 0 if unknown.
func windowOf(name string) int {
	name = bare(name)
	for _, known := range []struct {
		prefix string
		tokens int
	}{
		{"gpt-4.1", 1_047_576},
		{"gpt-4o", 128_000},
		{"o1", 200_000},
		{"o3", 200_000},
		{"o4", 200_000},
	} {
		if strings.HasPrefix(name, known.prefix) {
			return known.tokens
		}
	}
	return 0
}

// bare returns a model's name without the prefix of fine-tuned models and without
// the vendor before a slash.
func bare(name string) string {
	name = strings.TrimPrefix(name, "ft:")
	return name[strings.LastIndexByte(name, '/')+1:]
}
