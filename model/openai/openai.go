package openai

import (
	"context"
	"net/http"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

// Provider is the prefix of model names and the name of reasoning parts.
const Provider = "openai"

// Model calls one model of one server. It is safe for concurrent use.
type Model struct {
	cfg    Config
	origin string // the host, which gets only its own reasoning back
	own    bool   // the host is OpenAI's
	client *http.Client
}

// New returns a model without making a request. It returns an error for settings
// that cannot work, such as OpenAI's own address without a key.
func New(cfg Config) (*Model, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	base, err := provider.ParseBaseURL(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	return &Model{
		cfg: cfg, origin: base.Host, own: ownHost(base.Hostname()), client: provider.Client(cfg.HTTP, cfg.Silence),
	}, nil
}

// header returns the header of requests. Servers without keys may reject an empty one.
func (m *Model) header() http.Header {
	h := http.Header{}
	if m.cfg.APIKey != "" {
		h.Set("Authorization", "Bearer "+m.cfg.APIKey)
	}
	return h
}

// Name returns openai:MODEL.
func (m *Model) Name() string { return Provider + ":" + m.cfg.Model }

// String returns the name, so that printing a model does not show the key.
func (m *Model) String() string { return m.Name() }

// GoString returns the name, so that printing a model does not show the key.
func (m *Model) GoString() string { return m.Name() }

// Capabilities returns what the model supports. A model of a compatible server is
// assumed to support everything.
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

// caches reports whether the server supports OpenAI's prompt cache.
func (m *Model) caches() bool { return m.own || m.cfg.API == Responses }

// Call makes one request.
func (m *Model) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	if ctx.Err() != nil {
		return model.Reply{}, context.Cause(ctx)
	}
	if r.Cache != nil && r.Cache.Mode == "required" && !m.caches() {
		return model.Reply{}, provider.Invalid("cache_unsupported", "the session requires a prompt cache, which %s may not have", m.origin)
	}
	reply := provider.NewReply(ctx, emit)
	if m.cfg.API == Chat {
		s := &chatStream{m: m, reply: reply}
		return m.exchange(ctx, "/chat/completions", m.chatRequest(r), s)
	}
	s := &responseStream{m: m, reply: reply}
	return m.exchange(ctx, "/responses", m.responsesRequest(r), s)
}
