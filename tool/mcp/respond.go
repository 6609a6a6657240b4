package mcp

import (
	"context"
	"net/url"
	"path/filepath"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// client is our end of a connection: what we can do, and who answers what the server
// asks and tells.
func (l *link) client() *sdk.Client {
	version := l.all.Version
	if version == "" {
		version = "unknown"
	}
	opts := &sdk.ClientOptions{
		Capabilities:               &sdk.ClientCapabilities{},
		ToolListChangedHandler:     func(context.Context, *sdk.ToolListChangedRequest) { l.changedOffer() },
		ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) { l.tell(Event{Kind: ResourcesChanged}) },
		PromptListChangedHandler:   func(context.Context, *sdk.PromptListChangedRequest) { l.tell(Event{Kind: PromptsChanged}) },
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			if r.Params != nil {
				l.progress.tell(r.Params)
			}
		},
	}
	if len(l.all.Roots) > 0 {
		opts.Capabilities.RootsV2 = &sdk.RootCapabilities{}
	}
	if ask := l.all.Sampling; ask != nil {
		opts.CreateMessageHandler = func(ctx context.Context, r *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			return ask(ctx, l.cfg.Name, r.Params)
		}
	}
	if ask := l.all.Elicitation; ask != nil {
		opts.ElicitationHandler = func(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return ask(ctx, l.cfg.Name, r.Params)
		}
	}
	c := sdk.NewClient(&sdk.Implementation{Name: "turnlog", Version: version}, opts)
	for _, dir := range l.all.Roots {
		u := url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}
		c.AddRoots(&sdk.Root{URI: u.String(), Name: filepath.Base(dir)})
	}
	c.AddReceivingMiddleware(l.refuse)
	return c
}

// refuse answers for what no host answers.
func (l *link) refuse(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		switch {
		case method == "sampling/createMessage" && l.all.Sampling == nil:
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this client lends no model to servers"}
		case method == "elicitation/create" && l.all.Elicitation == nil:
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this client asks nobody for servers"}
		}
		return next(ctx, method, r)
	}
}
