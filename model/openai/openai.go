package openai

import (
	"context"
	"net/http"
	"net/url"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

// Provider is the name of this provider: in names of models, and on the reasoning
// parts that are its.
const Provider = "openai"

// Model asks one model of one server. It is safe for concurrent use.
type Model struct {
	cfg    Config
	origin string // the host whose reasoning may be sent back
	own    bool   // it is OpenAI's
	client sdk.Client
}

// New returns the model that cfg describes. It makes no request. It returns an
// error for settings that cannot work, for example no key for OpenAI's own
// address.
func New(cfg Config) (*Model, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	base, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return nil, err //nolint:wrapcheck // not reached: validate has parsed it
	}
	options := []option.RequestOption{
		option.WithBaseURL(cfg.BaseURL),
		option.WithMaxRetries(0),
		option.WithHTTPClient(client(cfg)),
	}
	if cfg.APIKey != "" {
		options = append(options, option.WithAPIKey(cfg.APIKey))
	}
	return &Model{
		cfg:    cfg,
		origin: base.Host,
		own:    ownHost(base.Hostname()),
		// The SDK's constructor would read the environment.
		client: sdk.Client{Options: options},
	}, nil
}

// client returns the HTTP client of cfg with patience for silence put around its
// transport.
func client(cfg Config) *http.Client {
	var c http.Client
	if cfg.HTTP != nil {
		c = *cfg.HTTP
	}
	silence := max(cfg.Silence, 0)
	c.Transport = &provider.Transport{Base: c.Transport, Silence: silence}
	return &c
}

// Name returns openai:MODEL.
func (m *Model) Name() string { return Provider + ":" + m.cfg.Model }

// String returns the name. It keeps the key out of printed models.
func (m *Model) String() string { return m.Name() }

// GoString returns the name. It keeps the key out of printed models.
func (m *Model) GoString() string { return m.Name() }

// Capabilities says what may be asked. What a compatible server's model can do is
// not known: it is taken to do anything.
func (m *Model) Capabilities() model.Capabilities {
	window := m.cfg.Context
	if window == 0 && m.own {
		window = windowOf(m.cfg.Model)
	}
	return model.Capabilities{
		Tools: true, Parallel: true, Reasoning: !m.own || reasons(m.cfg.Model), Media: true,
		OutputSchema: true, PromptCache: m.caches(), ContextTokens: window,
	}
}

// caches reports whether the server knows the fields of OpenAI's prompt cache.
func (m *Model) caches() bool { return m.own || m.cfg.API == Responses }

// Call makes one attempt.
func (m *Model) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	if ctx.Err() != nil {
		return model.Reply{}, context.Cause(ctx)
	}
	if r.Cache != nil && r.Cache.Mode == "required" && !m.caches() {
		return model.Reply{}, &model.Error{
			Class: content.ClassInvalid, Code: "cache_unsupported",
			Message: "the session requires a prompt cache, and it is not known that " + m.origin + " has one",
		}
	}
	reply := provider.NewReply(ctx, emit)
	if m.cfg.API == Chat {
		s := &chatStream{m: m, reply: reply}
		return m.exchange(ctx, "chat/completions", m.chatRequest(r), s)
	}
	s := &responseStream{m: m, reply: reply}
	return m.exchange(ctx, "responses", m.responsesRequest(r), s)
}
