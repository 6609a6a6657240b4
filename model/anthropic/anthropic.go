package anthropic

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

// Provider is the prefix of model names and the name of reasoning parts.
const Provider = "anthropic"

// Model calls one Claude model. It is safe for concurrent use.
type Model struct {
	provider.Endpoint

	cfg Config
}

// New returns a model. It makes no request, so a wrong key fails the first call.
func New(cfg Config) (*Model, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	e, err := provider.NewEndpoint(provider.Settings{
		Provider: Provider, Model: cfg.Model, BaseURL: cmp.Or(cfg.BaseURL, "https://api.anthropic.com"),
		HTTP: cfg.HTTP, Silence: cfg.Silence, Key: cfg.APIKey, KeyHeader: "X-Api-Key", Options: cfg,
		Failure: func(s *provider.StatusError) *model.Error {
			return apiError(s.Status, s.Body, s.Header.Get("Request-Id"))
		},
	})
	if err != nil {
		return nil, err
	}
	return &Model{Endpoint: e, cfg: cfg}, nil
}

// Capabilities reports that Claude models support everything.
func (m *Model) Capabilities() model.Capabilities {
	return model.Capabilities{
		Tools: true, Parallel: true, Reasoning: true, Media: true, OutputSchema: true, PromptCache: true,
		ContextTokens: m.cfg.ContextTokens,
	}
}

// Call makes one streamed request.
func (m *Model) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	body, compacting, err := m.cfg.request(r)
	if err != nil {
		return model.Reply{}, err
	}
	header, betas := http.Header{"Anthropic-Version": {"2023-06-01"}}, m.cfg.Betas
	if compacting {
		betas = append(betas, "compact-2026-01-12")
	}
	if len(betas) > 0 {
		header.Set("Anthropic-Beta", strings.Join(betas, ","))
	}
	a := answer{reply: provider.NewReply(ctx, emit)}
	reply, err := provider.Exchange(ctx, &m.Endpoint, provider.Request{Path: "/v1/messages?beta=true", Header: header, Body: body}, a.reply, &a)
	if reply.FinishReason == content.Blocked && len(reply.Items) > 0 && a.end.Detail != nil {
		reply.Items[0].Metadata = reply.Items[0].Metadata.With("refusal", a.end.Detail)
	}
	return reply, err
}
