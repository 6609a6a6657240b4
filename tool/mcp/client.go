package mcp

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// client returns our end of a connection: its capabilities, and its answers to requests
// and notifications of the server.
func (l *link) client() *sdk.Client {
	opts := &sdk.ClientOptions{
		Capabilities:           &sdk.ClientCapabilities{},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { signal(l.news) },
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
	return c
}

// listeners are the calls in flight that want progress reports, by progress token.
type listeners struct {
	last  atomic.Uint64
	calls sync.Map
}

// begin returns the progress token of a call, and a func that ends it.
func (l *listeners) begin(listen func(text string, share float64)) (token string, end func()) {
	token = "call-" + strconv.FormatUint(l.last.Add(1), 10)
	if listen != nil {
		l.calls.Store(token, listen)
	}
	return token, func() { l.calls.Delete(token) }
}

// report passes a server's progress report to its call.
func (l *listeners) report(p *sdk.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	listen, ok := l.calls.Load(token)
	if !ok {
		return
	}
	text, share := fmt.Sprintf("%g", p.Progress), 0.0
	if p.Total > 0 {
		share = p.Progress / p.Total
		text = fmt.Sprintf("%g of %g", p.Progress, p.Total)
	}
	listen.(func(string, float64))(cmp.Or(p.Message, text), share)
}
