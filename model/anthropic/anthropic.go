package anthropic

import (
	"context"
	"slices"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

// Provider is the prefix of model names and the name of reasoning parts.
const Provider = "anthropic"

// Model calls one Claude model. It is safe for concurrent use.
type Model struct {
	cfg      Config // without the key
	messages sdk.BetaMessageService
	key      func() string // a func, so that printing a Model does not show the key
}

// New returns a model. It makes no request, so a wrong key fails the first call.
func New(cfg Config) (*Model, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	key := cfg.APIKey
	opts := []option.RequestOption{
		option.WithoutOpenTelemetry(), // the environment controls what it records
		option.WithEnvironmentProduction(),
		option.WithHTTPClient(provider.Client(cfg.HTTP, cfg.Silence)),
		option.WithMaxRetries(0),
	}
	if cfg.BaseURL != "" {
		opts = append(opts, option.WithBaseURL(cfg.BaseURL))
	}
	if key != "" {
		opts = append(opts, option.WithAPIKey(key))
	}
	cfg.APIKey, cfg.HTTP = "", nil
	return &Model{
		cfg:      cfg,
		messages: sdk.NewBetaMessageService(slices.Clip(opts)...), // unlike sdk.NewClient, it reads no environment variables
		key:      func() string { return key },
	}, nil
}

// Name returns anthropic:MODEL.
func (m *Model) Name() string { return m.cfg.String() }

// Capabilities reports that Claude models support everything.
func (m *Model) Capabilities() model.Capabilities {
	return model.Capabilities{
		Tools: true, Parallel: true, Reasoning: true, Media: true, OutputSchema: true, PromptCache: true,
		ContextTokens: m.cfg.ContextTokens,
	}
}

// Call makes one streamed request.
func (m *Model) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	if ctx.Err() != nil {
		return model.Reply{}, context.Cause(ctx)
	}
	params, err := m.cfg.params(r)
	if err != nil {
		return model.Reply{}, err
	}
	stream := m.messages.NewStreaming(ctx, params)
	defer func() { _ = stream.Close() }()
	a := answer{reply: provider.NewReply(ctx, emit)}
	for err == nil && stream.Next() {
		err = a.take(stream.Current())
	}
	if err == nil {
		err = stream.Err()
	}
	var reply model.Reply
	if err == nil {
		reply, err = a.finish()
	}
	if err != nil {
		return model.Reply{}, m.failure(ctx, err, a.usage())
	}
	return reply, nil
}
