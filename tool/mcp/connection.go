package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/internal/toolname"
	"github.com/turnlog/turnlog/tool"
)

// legacyVersion is the newest protocol version that begins with initialize.
const legacyVersion = "2025-11-25"

const (
	maxTools = 1000 // of one server
	// maxSpecs limits the bytes that describe one server's tools: a worker's offer is one
	// message with the tools of all its servers.
	maxSpecs = 256 << 10
)

type connection struct {
	session *sdk.ClientSession
	tools   []tool.Tool
	program *program // nil for URLs

	once  sync.Once
	gone  chan struct{} // closed when the connection is lost
	cause error         // once gone is closed
	ended chan struct{} // closed when the session has ended

	closing chan struct{} // closed when close begins
}

// connect connects and lists what the server offers, within the time limit.
func (l *link) connect(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.ConnectTimeout)
	defer cancel()
	c := &connection{gone: make(chan struct{}), ended: make(chan struct{}), closing: make(chan struct{})}
	err := l.open(ctx, c)
	if err == nil {
		if c.tools, err = l.discover(ctx, c.session); err == nil {
			l.legacy = false
			return c, nil
		}
		c.close()
	}
	if ctx.Err() == nil {
		return nil, err
	}
	l.legacy = !l.legacy
	if err = context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	text := fmt.Sprintf("connect: no answer within %v", l.cfg.ConnectTimeout)
	if c.program != nil && c.program.output.last() != "" {
		text += "; it printed: " + c.program.output.last()
	}
	return nil, errors.New(text)
}

// open connects to the program, which it starts, or to the URL.
func (l *link) open(ctx context.Context, c *connection) error {
	var t sdk.Transport
	if l.auth != nil {
		t = &sdk.StreamableClientTransport{Endpoint: l.cfg.URL, HTTPClient: &http.Client{Transport: sender{l.auth, c.closing}}, MaxEventSize: l.all.maxMessage}
	} else {
		var err error
		if c.program, err = l.start(ctx); err != nil {
			return err
		}
		t = &guarded{sdk.IOTransport{Reader: c.program.messages, Writer: c.program, MaxLineLength: l.all.maxMessage}, c.lose}
	}
	opts := &sdk.ClientSessionOptions{}
	if l.legacy {
		opts.ProtocolVersion = legacyVersion
	}
	session, err := l.client().Connect(ctx, t, opts)
	if err != nil {
		if c.program != nil {
			err = c.program.explain(err)
		}
		return unwrapped(err)
	}
	c.session = session
	go func() {
		c.lose(session.Wait())
		close(c.ended)
	}()
	return nil
}

// lose marks the connection as lost.
func (c *connection) lose(cause error) {
	c.once.Do(func() {
		c.cause = cause
		close(c.gone)
	})
}

// close ends the connection and the program, and waits for both.
func (c *connection) close() {
	close(c.closing)
	if c.program != nil { // ended first: the session would wait for answers that the program may never read
		_ = c.program.Close()
	}
	_ = c.session.Close() // the connection is gone either way
	<-c.ended
}

func (c *connection) whyGone() error {
	err := cmp.Or(c.cause, errors.New("the server closed the connection"))
	if c.program != nil {
		return c.program.explain(err)
	}
	return unwrapped(err)
}

// discover lists everything that the server offers.
func (l *link) discover(ctx context.Context, session *sdk.ClientSession) ([]tool.Tool, error) {
	var offers []*remoteTool
	var caps sdk.ServerCapabilities
	if r := session.InitializeResult(); r != nil && r.Capabilities != nil {
		caps = *r.Capabilities
	}
	if caps.Tools != nil {
		seen := 0
		for t, err := range pages(ctx, toolsOf(session)) {
			seen++ // counts tools that are listed twice, too
			switch {
			case err != nil:
				return nil, fmt.Errorf("list tools: %w", unwrapped(err))
			case seen > maxTools:
				return nil, fmt.Errorf("list tools: there are more than %d", maxTools)
			}
			if t != nil && !slices.ContainsFunc(offers, func(o *remoteTool) bool { return o.name == t.Name }) {
				offers = append(offers, l.remote(t))
			}
		}
	}
	own := len(offers)
	if caps.Resources != nil {
		offers = append(offers, l.resources()...)
	}
	if caps.Prompts != nil {
		offers = append(offers, l.prompts()...)
	}
	return l.compile(offers, own), nil
}

// compile turns offers into tools. It omits those that cannot be used.
func (l *link) compile(offers []*remoteTool, own int) []tool.Tool {
	names := make([]string, len(offers))
	for i, o := range offers {
		names[i] = o.name
	}
	names = toolname.All("mcp_"+l.cfg.Name+"_", names, own)
	var tools []tool.Tool
	room := maxSpecs
	for i, o := range offers {
		o.spec.Name = names[i]
		t, err := tool.Compile(o)
		size := len(o.name) + len(o.spec.Description) + len(o.spec.InputSchema) + len(o.spec.OutputSchema)
		if err == nil && size > room {
			err = fmt.Errorf("tool %s: its %d bytes of description exceed the limit", o.spec.Name, size)
		}
		if err != nil {
			l.log.Warn("tool of an MCP server omitted", zap.Error(err))
			continue
		}
		room -= size
		tools = append(tools, t)
	}
	slices.SortFunc(tools, func(a, b tool.Tool) int { return strings.Compare(a.Spec().Name, b.Spec().Name) })
	return tools
}
