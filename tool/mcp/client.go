package mcp

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// client returns our end of a connection: its capabilities, and its answers to requests
// and notifications of the server.
func (l *link) client() *sdk.Client {
	opts := &sdk.ClientOptions{
		Capabilities:               &sdk.ClientCapabilities{},
		ToolListChangedHandler:     func(context.Context, *sdk.ToolListChangedRequest) { l.offerChanged() },
		ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) { l.tell(Event{Kind: ResourcesChanged}) },
		PromptListChangedHandler:   func(context.Context, *sdk.PromptListChangedRequest) { l.tell(Event{Kind: PromptsChanged}) },
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			if r.Params != nil {
				l.progress.report(r.Params)
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
	c := sdk.NewClient(&sdk.Implementation{Name: "turnlog", Version: cmp.Or(l.all.Version, "unknown")}, opts)
	for _, dir := range l.all.Roots {
		u := url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}
		c.AddRoots(&sdk.Root{URI: u.String(), Name: filepath.Base(dir)})
	}
	c.AddReceivingMiddleware(l.refuse)
	return c
}

// refuse answers requests that the host does not answer.
func (l *link) refuse(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		switch {
		case method == "sampling/createMessage" && l.all.Sampling == nil:
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this client does not support sampling"}
		case method == "elicitation/create" && l.all.Elicitation == nil:
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this client does not support elicitation"}
		}
		return next(ctx, method, r)
	}
}

// listeners are the calls in flight that want progress reports, by progress token.
type listeners struct {
	mu    sync.Mutex
	last  uint64
	calls map[string]func(text string, share float64)
}

// begin returns the progress token of a call, and a func that ends it.
func (l *listeners) begin(listen func(string, float64)) (token string, end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	token = "call-" + strconv.FormatUint(l.last, 10)
	if listen == nil {
		return token, func() {}
	}
	if l.calls == nil {
		l.calls = make(map[string]func(string, float64))
	}
	l.calls[token] = listen
	return token, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.calls, token)
	}
}

// report passes a server's progress report to its call.
func (l *listeners) report(p *sdk.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	l.mu.Lock()
	listen := l.calls[token]
	l.mu.Unlock()
	if listen == nil {
		return
	}
	text, share := fmt.Sprintf("%g", p.Progress), 0.0
	if p.Total > 0 {
		share = p.Progress / p.Total
		text = fmt.Sprintf("%g of %g", p.Progress, p.Total)
	}
	listen(cmp.Or(p.Message, text), share)
}
