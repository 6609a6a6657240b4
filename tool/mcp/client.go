package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/internal/wire"
)

// client returns the client side of a connection: its capabilities, and its handlers for requests and
// notifications from the server.
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
	c.AddReceivingMiddleware(l.survive)
	c.AddSendingMiddleware(uncached)
	for _, dir := range l.all.Roots {
		u := url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}
		c.AddRoots(&sdk.Root{URI: u.String(), Name: filepath.Base(dir)})
	}
	return c
}

// survive recovers panics in the SDK's handlers. The SDK runs them on its own goroutines, so an
// unexpected message, such as the end of an elicitation without its id, would end the process.
func (l *link) survive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (answer sdk.Result, err error) {
		err = wire.Safely(func() (err error) {
			answer, err = next(ctx, method, r)
			return err
		})
		if errors.Is(err, wire.ErrBroke) {
			l.noise.Do(func() {
				l.log.Warn("MCP server sent an invalid message", zap.String("method", method), zap.Error(err))
			})
		}
		return answer, err
	}
}

// uncached keeps the SDK from returning cached resources. The SDK keeps the last result of each URI
// without a limit, so readResource empties the result.
func uncached(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		answer, err := next(ctx, method, r)
		if read, ok := answer.(*sdk.ReadResourceResult); ok {
			read.Cacheable = sdk.Cacheable{}
		}
		return answer, err
	}
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
