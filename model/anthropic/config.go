package anthropic

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnlog/turnlog/internal/provider"
)

// Defaults of a [Config].
const (
	DefaultMaxTokens = 32_000
	DefaultSilence   = 5 * time.Minute
)

const (
	minThinking   = 1024   // tokens, required by the API
	minCompaction = 50_000 // tokens, required by the API
	claudeContext = 200_000
)

// Config configures a [Model].
type Config struct {
	Model   string // the API's name for it; required
	APIKey  string // required unless BaseURL is set
	BaseURL string // empty: Anthropic

	HTTP    *http.Client  // nil: the default client
	Silence time.Duration // fails a call that receives nothing for this long; zero: 5 minutes, negative: never

	MaxTokens   int64    // of a reply, thinking included; zero: 32,000 plus the thinking budget
	Temperature *float64 // 0 to 1; nil: the model's

	Thinking        string // empty: the model's; off, adaptive, between_tools, or a budget in tokens, at least 1024
	ThinkingDisplay string // empty: the model's; summarized or omitted; with adaptive or a budget
	Effort          string // empty: the model's; low, medium, high, xhigh or max

	Cache         string // for requests without a cache request: short or extended; empty: none
	CompactAt     int64  // input tokens at which the provider compacts the context, at least 50,000; zero: never
	Strict        bool   // enforce the tools' schemas, as far as the API supports them
	EagerInput    bool   // stream arguments unchecked
	ContextTokens int    // size of the context window; zero: 200,000 for claude-*, otherwise unknown

	Betas []string // additional beta features
}

// String returns the name of the model, without the key.
func (c Config) String() string { return Provider + ":" + c.Model }

// GoString returns String, so that no format verb prints the key.
func (c Config) GoString() string { return c.String() }

// MarshalJSON returns String as JSON, so that no encoder writes the key.
func (c Config) MarshalJSON() ([]byte, error) { return strconv.AppendQuote(nil, c.String()), nil }

func (c Config) withDefaults() Config {
	c.Silence = cmp.Or(c.Silence, DefaultSilence)
	budget, _ := c.budget()
	c.MaxTokens = cmp.Or(c.MaxTokens, DefaultMaxTokens+budget)
	if c.ContextTokens == 0 && strings.HasPrefix(c.Model, "claude-") {
		c.ContextTokens = claudeContext
	}
	c.Betas = slices.Clone(c.Betas)
	return c
}

func (c Config) validate() error {
	if c.Model == "" {
		return fmt.Errorf("%s: no model: write %s:MODEL", Provider, Provider)
	}
	if err := provider.CheckKey(c.APIKey); err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	if c.BaseURL != "" {
		if _, err := provider.ParseBaseURL(c.BaseURL); err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
	}
	budget, err := c.budget()
	switch {
	case err != nil:
		return c.wrong("thinking", c.Thinking, "want off, adaptive, between_tools or a number of tokens, at least 1024")
	case c.APIKey == "" && c.BaseURL == "":
		return fmt.Errorf("%s: no API key", c)
	case c.MaxTokens < 1:
		return c.wrong("max_tokens", strconv.FormatInt(c.MaxTokens, 10), "want at least 1")
	case c.MaxTokens <= budget:
		return c.wrong("max_tokens", strconv.FormatInt(c.MaxTokens, 10), "want more than the thinking budget")
	case c.Temperature != nil && !(*c.Temperature >= 0 && *c.Temperature <= 1):
		return c.wrong("temperature", fmt.Sprint(*c.Temperature), "want 0 to 1")
	case !oneOf(c.ThinkingDisplay, "", "summarized", "omitted"):
		return c.wrong("thinking_display", c.ThinkingDisplay, "want summarized or omitted")
	case c.ThinkingDisplay != "" && c.Thinking != "adaptive" && budget == 0:
		return c.wrong("thinking_display", c.ThinkingDisplay, "it needs thinking adaptive or a budget")
	case !oneOf(c.Effort, "", "low", "medium", "high", "xhigh", "max"):
		return c.wrong("effort", c.Effort, "want low, medium, high, xhigh or max")
	case !oneOf(c.Cache, "", "short", "extended"):
		return c.wrong("cache", c.Cache, "want short or extended")
	case c.CompactAt != 0 && c.CompactAt < minCompaction:
		return c.wrong("compact_at", strconv.FormatInt(c.CompactAt, 10), "want at least 50000")
	case c.ContextTokens < 0:
		return c.wrong("context", strconv.Itoa(c.ContextTokens), "want a number of tokens")
	}
	return nil
}

func (c Config) wrong(option, value, want string) error {
	return fmt.Errorf("%s: option %s=%s: %s", c, option, value, want)
}

// budget returns the thinking budget in tokens, or 0 if Thinking is not a number.
func (c Config) budget() (int64, error) {
	if oneOf(c.Thinking, "", "off", "adaptive", "between_tools") {
		return 0, nil
	}
	n, err := strconv.ParseInt(c.Thinking, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("thinking: %w", err)
	}
	if n < minThinking {
		return 0, fmt.Errorf("thinking: %d tokens", n)
	}
	return n, nil
}

func oneOf(s string, all ...string) bool { return slices.Contains(all, s) }
