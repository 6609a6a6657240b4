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
)

// API is one of the two interfaces.
type API string

// The interfaces.
const (
	Responses API = "responses"
	Chat      API = "chat"
)

// OpenAI is the base URL of OpenAI itself.
const OpenAI = "https://api.openai.com/v1"

// defaultSilence is how long a provider may send nothing.
const defaultSilence = 5 * time.Minute

// Config says which model of which server is asked, and how. Model is required.
type Config struct {
	Model   string
	BaseURL string // empty: OpenAI
	API     API    // empty: Responses at OpenAI's own address, Chat at any other

	// APIKey is required at OpenAI's own address. Empty: no Authorization header.
	APIKey string `json:"-"`

	HTTP    *http.Client  `json:"-"` // nil: a client of its own
	Silence time.Duration // how long nothing may come; zero: five minutes, negative: for ever

	MaxTokens   int      // of a reply, with its reasoning; zero: the provider's default
	Temperature *float64 // nil: the provider's default
	Effort      string   // of reasoning: none, minimal, low, medium, high, xhigh or max; empty: the provider's default
	Summary     string   // of reasoning, Responses only: auto, concise or detailed; empty: none
	Context     int      // tokens in the model's window; zero: what is known of OpenAI's older models, else not known
	Compact     int      // Responses only: the provider compacts contexts of more tokens; zero: never

	// NoUsage keeps a request to Chat from asking for usage, for servers that
	// refuse requests which do. Of Mistral's it is known.
	NoUsage bool
}

// String describes the configuration without its key.
func (c Config) String() string {
	return fmt.Sprintf("%s of %s through %s", c.Model, cmp.Or(c.BaseURL, OpenAI), cmp.Or(string(c.API), "the default API"))
}

// GoString describes the configuration without its key.
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
		return errors.New("openai: no model is named")
	}
	base, err := url.Parse(c.BaseURL)
	switch {
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return errors.New("openai: the base URL is none: write http:// or https://, a host and a path such as /v1")
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return fmt.Errorf("openai: base URL of %s: leave out user, query and fragment", base.Host)
	case c.APIKey == "" && ownHost(base.Hostname()):
		return fmt.Errorf("openai: %s needs an API key", base.Host)
	case strings.ContainsFunc(c.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("openai: the API key has a character that no key has, such as a space or a line end")
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
			return fmt.Errorf("openai: %s is %d: it cannot be negative", setting, n)
		}
		return nil
	}
	if t := c.Temperature; t != nil && !(*t >= 0 && *t <= 2) {
		return fmt.Errorf("openai: temperature is %v: it is between 0 and 2", *t)
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

// ownHost reports whether host is OpenAI's, in any of its regions.
func ownHost(host string) bool {
	return host == "api.openai.com" || strings.HasSuffix(host, ".api.openai.com")
}

// refusesUsage reports whether a host is known to refuse requests for usage. It
// sends usage all the same.
func refusesUsage(host string) bool {
	return host == "mistral.ai" || strings.HasSuffix(host, ".mistral.ai")
}

// reasons reports whether one of OpenAI's models reasons. The others refuse
// requests for encrypted reasoning.
func reasons(name string) bool {
	name = bare(name)
	for _, prefix := range []string{"gpt-3", "gpt-4", "chatgpt-4", "gpt-5-chat"} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return true
}

// windowOf returns the context window of a model of OpenAI's that is so old that
// it will not change; zero for the others.
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

// bare returns a model's name without what may stand around it: the mark of a
// fine-tuned one, and the vendor's name before a slash.
func bare(name string) string {
	name = strings.TrimPrefix(name, "ft:")
	return name[strings.LastIndexByte(name, '/')+1:]
}
