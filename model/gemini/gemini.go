package gemini

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/genai"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

// name is the provider in names of models and of reasoning parts.
const name = "gemini"

// defaultBaseURL is the provider's own address.
const defaultBaseURL = "https://generativelanguage.googleapis.com/"

// defaultSilence is how long the provider may send nothing.
const defaultSilence = 5 * time.Minute

// Config says which model is called, and how. Model and APIKey are required.
type Config struct {
	Model  string // the provider's name for it, such as gemini-flash-latest
	APIKey string // never printed

	BaseURL string            // "": the provider's own
	HTTP    http.RoundTripper // nil: http.DefaultTransport
	Silence time.Duration     // an exchange in which nothing came for so long has failed; 0: 5 min

	MaxTokens   int      // of one reply; 0: the model's own limit
	Temperature *float64 // 0 to 2; nil: the model's own

	ThinkingLevel  string // minimal, low, medium or high; "": the model's own
	ThinkingBudget *int   // tokens for thoughts, -1: as many as it wants; nil: the model's own
	Thoughts       bool   // show summaries of the thoughts

	Context int // tokens of the context window; 0: as known for the model
}

// Model is one Gemini model.
type Model struct {
	cfg    Config
	client *genai.Client
}

// New returns the model. It returns an error for a setting that is missing or makes
// no sense; the key is in none of them.
func New(cfg Config) (*Model, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	once := int32(1)
	client, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		APIKey:  cfg.APIKey,
		Backend: genai.BackendGeminiAPI,
		HTTPClient: &http.Client{
			Transport:     &noting{base: &provider.Transport{Base: cfg.HTTP, Silence: cfg.Silence}},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the key is for one host
		},
		HTTPOptions: genai.HTTPOptions{
			BaseURL: cfg.BaseURL, RetryOptions: &genai.HTTPRetryOptions{Attempts: &once},
		},
	})
	if err != nil {
		return nil, errors.New(scrub(err.Error(), cfg.APIKey))
	}
	return &Model{cfg: cfg, client: client}, nil
}

func (c Config) withDefaults() Config {
	if c.BaseURL == "" {
		c.BaseURL = defaultBaseURL
	}
	c.BaseURL = strings.TrimSuffix(strings.TrimSuffix(c.BaseURL, "/"), "/v1beta") + "/" // the client adds the version
	if c.Silence == 0 {
		c.Silence = defaultSilence
	}
	if c.Context == 0 {
		c.Context = window(c.Model)
	}
	return c
}

func (c Config) validate() error {
	at, err := url.Parse(c.BaseURL)
	switch {
	case c.Model == "":
		return errors.New("no model is named")
	case strings.ContainsAny(c.Model, "?&") || strings.Contains(c.Model, ".."):
		return fmt.Errorf("%q is no name of a model", c.Model)
	case c.APIKey == "":
		return errors.New("no API key")
	case err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https":
		return errors.New("base URL: want http://HOST or https://HOST")
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
		return errors.New("thinking_level and thinking_budget at once: give one of them")
	case c.Context < 0:
		return fmt.Errorf("context %d: use 1 or more", c.Context)
	}
	return nil
}

func levels() []string { return []string{"minimal", "low", "medium", "high"} }

// window is the context window of the models that are known by their names' form.
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

// Name is gemini: and the provider's name.
func (m *Model) Name() string { return name + ":" + m.cfg.Model }

// String is the name: nothing prints the key.
func (m *Model) String() string { return m.Name() }

// GoString is the name: nothing prints the key.
func (m *Model) GoString() string { return m.Name() }

// Capabilities says that Gemini models can do everything except keep a prompt's
// prefix on request: what they cache, they cache by themselves.
func (m *Model) Capabilities() model.Capabilities {
	return model.Capabilities{
		Tools: true, Parallel: true, Reasoning: true, Media: true, OutputSchema: true,
		ContextTokens: m.cfg.Context,
	}
}

// Call makes one request and streams its answer.
func (m *Model) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	if ctx.Err() != nil {
		return model.Reply{}, context.Cause(ctx)
	}
	contents, config, err := m.request(r)
	if err != nil {
		return model.Reply{}, err
	}
	noted := &notes{}
	a := &answer{reply: provider.NewReply(ctx, emit), model: m.cfg.Model}
	if err := a.follow(m.client.Models.GenerateContentStream(noted.in(ctx), m.cfg.Model, contents, config)); err != nil {
		return model.Reply{}, m.failure(ctx, err, noted, a.usage)
	}
	if ctx.Err() != nil {
		return model.Reply{}, context.Cause(ctx)
	}
	if noted.broken != nil {
		return model.Reply{}, m.failure(ctx, noted.broken, noted, a.usage)
	}
	return a.end()
}
