package anthropic

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	defaultMaxTokens = 32_000 // without a thinking budget
	minThinking      = 1024   // tokens, required by the API
	claudeContext    = 200_000
)

// Config configures a [Model].
type Config struct {
	Model   string // its name in the API; required
	APIKey  string // required unless BaseURL is set
	BaseURL string // empty: Anthropic

	HTTP    *http.Client  // nil: the default client
	Silence time.Duration // fails a call that receives nothing for this long; zero: 5 minutes, negative: never

	MaxTokens   int64    `option:"max_tokens" want:"at least 1"` // of a reply, thinking included; zero: 32,000 plus the thinking budget
	Temperature *float64 `option:"temperature" want:"0 to 1"`    // nil: the model's

	Thinking        string `option:"thinking"`                                    // empty: the model's default; off, adaptive, between_tools, or a budget in tokens, at least 1024
	ThinkingDisplay string `option:"thinking_display" want:"summarized, omitted"` // empty: the model's; with adaptive or a budget
	Effort          string `option:"effort" want:"low, medium, high, xhigh, max"` // empty: the model's

	Cache         string `option:"cache" want:"short, extended"`     // for requests without a cache request; empty: none
	CompactAt     int64  `option:"compact_at" want:"at least 50000"` // input tokens at which the provider compacts the context; zero: never
	Strict        bool   `option:"strict"`                           // enforce the tools' schemas, as far as the API supports them
	EagerInput    bool   `option:"eager_input"`                      // stream arguments unchecked
	ContextTokens int    `option:"context" want:"at least 1"`        // size of the context window; zero: 200,000 for claude-*, otherwise unknown

	Betas []string // additional beta features
}

// String returns the name of the model, without the key.
func (c Config) String() string { return Provider + ":" + c.Model }

// GoString returns String, so that no format verb prints the key.
func (c Config) GoString() string { return c.String() }

// MarshalJSON returns String as JSON, so that no encoder writes the key.
func (c Config) MarshalJSON() ([]byte, error) { return strconv.AppendQuote(nil, c.String()), nil }

// complete sets the defaults.
func (c *Config) complete() error {
	budget, err := c.budget()
	c.MaxTokens = cmp.Or(c.MaxTokens, defaultMaxTokens+budget)
	if c.ContextTokens == 0 && strings.HasPrefix(c.Model, "claude-") {
		c.ContextTokens = claudeContext
	}
	c.Betas = slices.Clip(slices.Clone(c.Betas))
	switch {
	case err != nil:
		return err
	case c.APIKey == "" && c.BaseURL == "":
		return errors.New("no API key")
	case c.MaxTokens > 0 && c.MaxTokens <= budget:
		return fmt.Errorf("option max_tokens=%d: want more than the thinking budget", c.MaxTokens)
	case c.ThinkingDisplay != "" && c.Thinking != "adaptive" && budget == 0:
		return fmt.Errorf("option thinking_display=%s needs thinking=adaptive or a budget", c.ThinkingDisplay)
	}
	return nil
}

// budget returns the thinking budget in tokens, or 0 if Thinking is not a number.
func (c *Config) budget() (int64, error) {
	if oneOf(c.Thinking, "", "off", "adaptive", "between_tools") {
		return 0, nil
	}
	n, err := strconv.ParseInt(c.Thinking, 10, 64)
	if err != nil || n < minThinking {
		return 0, fmt.Errorf("option thinking=%s: want off, adaptive, between_tools or a number of tokens, at least %d", c.Thinking, minThinking)
	}
	return n, nil
}

func oneOf(s string, all ...string) bool { return slices.Contains(all, s) }
