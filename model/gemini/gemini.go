package gemini

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

const (
	name           = "gemini" // prefix of model names and name of reasoning parts
	defaultBaseURL = "https://generativelanguage.googleapis.com"
	defaultSilence = 5 * time.Minute
)

// Config configures a [Model]. Model and APIKey are required.
type Config struct {
	Model  string // the API's name for it, such as gemini-flash-latest
	APIKey string // never printed

	BaseURL string            // empty: Google
	HTTP    http.RoundTripper // nil: http.DefaultTransport
	Silence time.Duration     // fails a call that receives nothing for this long; zero: 5 minutes

	MaxTokens   int      // of a reply; zero: the model's limit
	Temperature *float64 // 0 to 2; nil: the model's default

	ThinkingLevel  string // minimal, low, medium or high; empty: the model's default
	ThinkingBudget *int   // tokens for thoughts, -1: no limit; nil: the model's default
	Thoughts       bool   // show summaries of thoughts

	Context int // size of the context window; zero: 1,048,576 for text models named gemini-*, otherwise unknown
}

// Model calls one Gemini model. It is safe for concurrent use.
type Model struct {
	cfg    Config
	client *http.Client
}

// New returns a model, or an error for a missing or invalid setting. The error does
// not contain the key.
func New(cfg Config) (*Model, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Model{cfg: cfg, client: provider.Client(&http.Client{Transport: cfg.HTTP}, cfg.Silence)}, nil
}

func (c Config) withDefaults() Config {
	c.BaseURL = cmp.Or(c.BaseURL, defaultBaseURL)
	c.BaseURL = strings.TrimSuffix(strings.TrimSuffix(c.BaseURL, "/"), "/v1beta") + "/v1beta"
	c.Silence = cmp.Or(c.Silence, defaultSilence)
	c.Context = cmp.Or(c.Context, window(c.Model))
	return c
}

func (c Config) validate() error {
	_, err := provider.ParseBaseURL(c.BaseURL)
	switch {
	case c.Model == "":
		return errors.New("no model is named")
	case strings.ContainsAny(c.Model, "?&") || strings.Contains(c.Model, ".."):
		return fmt.Errorf("%q is not the name of a model", c.Model)
	case c.APIKey == "":
		return errors.New("no API key")
	case err != nil:
		return err
	case c.Silence < 0:
		return fmt.Errorf("silence %v: use a positive time", c.Silence)
	case c.MaxTokens < 0 || c.MaxTokens > math.MaxInt32:
		return fmt.Errorf("max_tokens %d: use 1 or more, or 0 for the model's own limit", c.MaxTokens)
	case c.Temperature != nil && !(*c.Temperature >= 0 && *c.Temperature <= 2):
		return fmt.Errorf("temperature %v: use 0 to 2", *c.Temperature)
	case c.ThinkingLevel != "" && !slices.Contains(levels(), c.ThinkingLevel):
		return fmt.Errorf("thinking_level %q: use %s", c.ThinkingLevel, strings.Join(levels(), ", "))
	case c.ThinkingBudget != nil && (*c.ThinkingBudget < -1 || *c.ThinkingBudget > math.MaxInt32):
		return fmt.Errorf("thinking_budget %d: use 0 or more, or -1 for as much as the model wants", *c.ThinkingBudget)
	case c.ThinkingLevel != "" && c.ThinkingBudget != nil:
		return errors.New("thinking_level and thinking_budget exclude each other")
	case c.Context < 0:
		return fmt.Errorf("context %d: use 1 or more", c.Context)
	}
	return nil
}

func levels() []string { return []string{"minimal", "low", "medium", "high"} }

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

// Name returns gemini:MODEL.
func (m *Model) Name() string { return name + ":" + m.cfg.Model }

// String returns the name, so that printing a model does not show the key.
func (m *Model) String() string { return m.Name() }

// GoString returns the name, so that printing a model does not show the key.
func (m *Model) GoString() string { return m.Name() }

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
	if ctx.Err() != nil {
		return model.Reply{}, context.Cause(ctx)
	}
	body, err := m.request(r)
	if err != nil {
		return model.Reply{}, err
	}
	url := m.cfg.BaseURL + "/" + modelPath(m.cfg.Model) + ":streamGenerateContent?alt=sse"
	header := http.Header{"X-Goog-Api-Key": {m.cfg.APIKey}}
	a := &answer{reply: provider.NewReply(ctx, emit), model: m.cfg.Model}
	var reply model.Reply
	if err = provider.Stream(ctx, m.client, url, header, body, a); err == nil {
		reply, err = a.end()
	}
	if err != nil {
		return model.Reply{}, m.failure(ctx, err, a.usage)
	}
	return reply, nil
}

// modelPath returns the path of a model, which may be of another collection.
func modelPath(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return "models/" + name
}
