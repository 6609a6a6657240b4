package openai

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
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

// Config configures a [Model]. Model is required.
type Config struct {
	Model   string
	BaseURL string // empty: OpenAI
	API     API    `option:"api" want:"responses, chat"` // empty: Responses at OpenAI's own address, Chat at any other

	// APIKey is required at OpenAI's own address. Empty: no Authorization header.
	APIKey string `json:"-"`

	HTTP    *http.Client  `json:"-"` // nil: the default client
	Silence time.Duration // fails a call that receives nothing for this long; zero: 5 minutes, negative: never

	MaxTokens   int      `option:"max_tokens" want:"at least 1"` // of a reply, reasoning included; zero: the provider's default
	Temperature *float64 `option:"temperature" want:"0 to 2"`    // nil: the provider's default

	Effort  string `option:"effort" want:"none, minimal, low, medium, high, xhigh, max"` // of reasoning; empty: the provider's default
	Summary string `option:"summary" want:"auto, concise, detailed"`                     // of reasoning, only for Responses; empty: none
	Compact int    `option:"compact" want:"at least 1"`                                  // only for Responses: input tokens at which the provider compacts the context; zero: never

	// Usage asks for usage in Chat requests, which some servers reject. Nil: yes, except
	// at Mistral, which sends usage anyway.
	Usage *bool `option:"usage"`

	Context int `option:"context" want:"at least 1"` // size of the context window; zero: unknown
}

// String describes the configuration without the key.
func (c Config) String() string {
	return fmt.Sprintf("%s of %s through %s", c.Model, cmp.Or(c.BaseURL, OpenAI), cmp.Or(string(c.API), "the default API"))
}

// GoString returns String, so that no format verb prints the key.
func (c Config) GoString() string { return c.String() }

// complete returns the configuration with its defaults for a base URL.
func (c Config) complete(base *url.URL) (Config, error) {
	host := base.Hostname()
	switch {
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return c, fmt.Errorf("base URL of %s: leave out user, query and fragment", base.Host)
	case c.APIKey == "" && ownHost(host):
		return c, fmt.Errorf("%s needs an API key", base.Host)
	case c.API == "" && ownHost(host):
		c.API = Responses
	}
	c.API = cmp.Or(c.API, Chat)
	if c.API == Chat && (c.Summary != "" || c.Compact != 0) {
		return c, errors.New("summary and compact need the responses API")
	}
	if c.Usage == nil {
		c.Usage = new(host != "mistral.ai" && !strings.HasSuffix(host, ".mistral.ai"))
	}
	return c, nil
}

// ownHost reports whether host is OpenAI's, in any region.
func ownHost(host string) bool {
	return host == "api.openai.com" || strings.HasSuffix(host, ".api.openai.com")
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

// bare returns a model's name without the prefix of fine-tuned models and without
// the vendor before a slash.
func bare(name string) string {
	name = strings.TrimPrefix(name, "ft:")
	return name[strings.LastIndexByte(name, '/')+1:]
}
