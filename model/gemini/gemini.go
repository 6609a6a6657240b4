package gemini

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

const (
	name           = "gemini" // prefix of model names and name of reasoning parts
	defaultBaseURL = "https://generativelanguage.googleapis.com"
)

// Config configures a [Model]. Model and APIKey are required.
type Config struct {
	Model  string // its name in the API, such as gemini-flash-latest
	APIKey string // never printed

	BaseURL string        // empty: Google
	HTTP    *http.Client  // nil: the default client
	Silence time.Duration // fails a call that receives nothing for this long; zero: 5 minutes, negative: never

	MaxTokens   int      `option:"max_tokens" want:"1 to 2147483647"` // of a reply; zero: the model's limit
	Temperature *float64 `option:"temperature" want:"0 to 2"`         // nil: the model's default

	ThinkingLevel  string `option:"thinking_level" want:"minimal, low, medium, high"` // empty: the model's default
	ThinkingBudget *int   `option:"thinking_budget" want:"-1 to 2147483647"`          // tokens for thoughts, -1: no limit; nil: the model's default
	Thoughts       bool   `option:"thoughts"`                                         // show summaries of thoughts

	Context int `option:"context" want:"at least 1"` // size of the context window; zero: 1,048,576 for text models named gemini-*, otherwise unknown
}

// Model calls one Gemini model. It is safe for concurrent use.
type Model struct {
	provider.Endpoint

	cfg Config
}

// New returns a model, or an error for a missing or invalid setting. The error does
// not contain the key.
func New(cfg Config) (*Model, error) {
	cfg.Context = cmp.Or(cfg.Context, window(cfg.Model))
	base := strings.TrimSuffix(cmp.Or(cfg.BaseURL, defaultBaseURL), "/")
	e, err := provider.NewEndpoint(provider.Settings{
		Provider: name, Model: cfg.Model, BaseURL: strings.TrimSuffix(base, "/v1beta") + "/v1beta",
		HTTP: cfg.HTTP, Silence: cfg.Silence, Key: cfg.APIKey, KeyHeader: "X-Goog-Api-Key",
		Options: cfg, Failure: statusFailure,
	})
	switch {
	case err != nil:
		return nil, err
	case strings.ContainsAny(cfg.Model, "?&") || strings.Contains(cfg.Model, ".."):
		return nil, fmt.Errorf("%q is not the name of a model", cfg.Model)
	case cfg.APIKey == "":
		return nil, errors.New("no API key")
	case cfg.ThinkingLevel != "" && cfg.ThinkingBudget != nil:
		return nil, errors.New("thinking_level and thinking_budget exclude each other")
	}
	return &Model{Endpoint: e, cfg: cfg}, nil
}

// window returns the context window of text models, or 0 if unknown.
func window(model string) int {
	for _, other := range []string{"image", "tts", "audio", "live", "embedding"} {
		if strings.Contains(model, other) {
			return 0
		}
	}
	if strings.HasPrefix(model, "gemini-") {
		return 1 << 20
	}
	return 0
}

// Capabilities reports that Gemini models support everything except cache requests:
// the API caches prefixes on its own.
func (m *Model) Capabilities() model.Capabilities {
	return model.Capabilities{
		Tools: true, Parallel: true, Reasoning: true, Media: true, OutputSchema: true,
		ContextTokens: m.cfg.Context,
	}
}

// Call makes one streamed request.
func (m *Model) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	body, err := m.request(r)
	if err != nil {
		return model.Reply{}, err
	}
	reply := provider.NewReply(ctx, emit)
	reply.Model = m.cfg.Model
	path := "/" + modelPath(m.cfg.Model) + ":streamGenerateContent?alt=sse"
	return provider.Exchange(ctx, &m.Endpoint, provider.Request{Path: path, Body: body}, reply, &answer{reply: reply})
}

func modelPath(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return "models/" + name
}
