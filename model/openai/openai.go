package openai

import (
	"cmp"
	"context"
	"net/url"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

// Provider is the prefix of model names and the name of reasoning parts.
const Provider = "openai"

// Model calls one model of one server. It is safe for concurrent use.
type Model struct {
	provider.Endpoint

	cfg    Config
	origin string // the host, which gets only its own reasoning back
	own    bool   // the host is OpenAI's
}

// New returns a model without making a request. It returns an error for settings
// that cannot work, such as OpenAI's own address without a key.
func New(cfg Config) (*Model, error) {
	cfg.BaseURL = cmp.Or(cfg.BaseURL, OpenAI)
	e, err := provider.NewEndpoint(provider.Settings{
		Provider: Provider, Model: cfg.Model, BaseURL: cfg.BaseURL, HTTP: cfg.HTTP, Silence: cfg.Silence,
		Key: cfg.APIKey, KeyHeader: "Authorization", KeyPrefix: "Bearer ",
		Options: cfg,
		Failure: func(s *provider.StatusError) *model.Error { return parseError(s.Body).failure(s.Status) },
	})
	if err != nil {
		return nil, err
	}
	base, _ := url.Parse(cfg.BaseURL) // NewEndpoint has checked it
	if cfg, err = cfg.complete(base); err != nil {
		return nil, err
	}
	return &Model{Endpoint: e, cfg: cfg, origin: base.Host, own: ownHost(base.Hostname())}, nil
}

// Capabilities returns what the model supports. A model of a compatible server is
// assumed to support everything.
func (m *Model) Capabilities() model.Capabilities {
	return model.Capabilities{
		Tools: true, Parallel: true, Reasoning: !m.own || reasons(m.cfg.Model), Media: true,
		OutputSchema: true, PromptCache: m.caches(), ContextTokens: m.cfg.Context,
	}
}

// caches reports whether the server supports OpenAI's prompt cache.
func (m *Model) caches() bool { return m.own || m.cfg.API == Responses }

// Call makes one request.
func (m *Model) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	if r.Cache != nil && r.Cache.Mode == "required" && !m.caches() {
		return model.Reply{}, provider.Invalid("cache_unsupported", "the session requires a prompt cache, which %s may not have", m.origin)
	}
	reply := provider.NewReply(ctx, emit)
	if m.cfg.API == Chat {
		return provider.Exchange(ctx, &m.Endpoint, provider.Request{Path: "/chat/completions", Body: m.chatRequest(r)}, reply, &chatStream{m: m, reply: reply})
	}
	done, err := provider.Exchange(ctx, &m.Endpoint, provider.Request{Path: "/responses", Body: m.responsesRequest(r)}, reply, &responseStream{m: m, reply: reply})
	if done.FinishReason == content.Completed {
		done.Items = separateAnswer(done.Items)
	}
	return done, err
}
