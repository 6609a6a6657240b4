package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnlog/turnlog/tool"
)

// legacyVersion is the newest version of the protocol that begins with initialize.
const legacyVersion = "2025-11-25"

const (
	maxTools = 1000 // that one server may offer
	// maxSpecs is how many bytes the descriptions of one server's tools may have. A
	// worker's offer is one message with the tools of all its servers.
	maxSpecs = 256 << 10
)

// connection is what a link holds.
type connection struct {
	session *sdk.ClientSession
	tools   []tool.Tool
	program *program      // nil for URLs
	gone    chan struct{} // closed when the connection is lost
	cause   error         // once gone is closed
}

// transport is the way to a server, which stays to be closed when the SDK fails to
// connect and leaves it open.
type transport struct {
	sdk.Transport
	conn sdk.Connection
}

// Connect opens the way.
func (t *transport) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	t.conn = conn
	return conn, err //nolint:wrapcheck // the SDK calls this, and wraps it
}

// timeoutError says that a server did not answer in time.
type timeoutError struct {
	after time.Duration
	last  string // what its program said last
}

// Error says how long it had.
func (e *timeoutError) Error() string {
	text := fmt.Sprintf("connect: no answer within %v", e.after)
	if e.last != "" {
		text += "; it said: " + e.last
	}
	return text
}

// Unwrap makes it a context.DeadlineExceeded.
func (e *timeoutError) Unwrap() error { return context.DeadlineExceeded }

// connect connects and asks what is on offer, both within the time for that.
func (l *link) connect(ctx context.Context) (*connection, error) {
	late := &timeoutError{after: l.cfg.ConnectTimeout}
	ctx, cancel := context.WithTimeoutCause(ctx, l.cfg.ConnectTimeout, late)
	defer cancel()
	c := &connection{gone: make(chan struct{})}
	err := l.open(ctx, c)
	if err == nil {
		if c.tools, err = l.discover(ctx, c.session); err == nil {
			l.legacy = false
			return c, nil
		}
		c.close()
	}
	if ctx.Err() != nil {
		l.legacy = !l.legacy
		err = context.Cause(ctx)
		if c.program != nil && errors.Is(err, late) {
			err = &timeoutError{after: late.after, last: c.program.words.last()}
		}
		return nil, err
	}
	return nil, err
}

// open starts the program, or turns to the URL, and shakes hands.
func (l *link) open(ctx context.Context, c *connection) error {
	t := &transport{}
	if l.door != nil {
		t.Transport = &sdk.StreamableClientTransport{Endpoint: l.cfg.URL, HTTPClient: l.door.client(), MaxEventSize: l.all.MaxMessage}
	} else {
		var err error
		if c.program, err = l.start(ctx); err != nil {
			return err
		}
		t.Transport = &sdk.IOTransport{Reader: c.program.messages, Writer: c.program, MaxLineLength: l.all.MaxMessage}
	}
	opts := &sdk.ClientSessionOptions{}
	if l.legacy {
		opts.ProtocolVersion = legacyVersion
	}
	session, err := l.client().Connect(ctx, t, opts)
	if err != nil {
		if t.conn != nil {
			_ = t.conn.Close()
		}
		if c.program != nil {
			err = c.program.explain(err)
		}
		return plainly(err)
	}
	c.session = session
	go func() {
		c.cause = session.Wait()
		close(c.gone)
	}()
	return nil
}

// close ends the connection and waits for it, and for the program, to be gone.
func (c *connection) close() {
	_ = c.session.Close() // there is nobody to tell
	<-c.gone
}

// whyGone says why the connection was lost.
func (c *connection) whyGone() error {
	err := cmp.Or(c.cause, errors.New("the server closed the connection"))
	if c.program != nil {
		return c.program.explain(err)
	}
	return plainly(err)
}

// discover asks for all that is on offer.
func (l *link) discover(ctx context.Context, session *sdk.ClientSession) ([]tool.Tool, error) {
	var offers []offer
	var caps sdk.ServerCapabilities
	if r := session.InitializeResult(); r != nil && r.Capabilities != nil {
		caps = *r.Capabilities
	}
	if caps.Tools != nil {
		for t, err := range session.Tools(ctx, nil) {
			switch {
			case err != nil:
				return nil, fmt.Errorf("list tools: %w", plainly(err))
			case len(offers) == maxTools:
				return nil, fmt.Errorf("list tools: there are more than %d", maxTools)
			}
			if !slices.ContainsFunc(offers, func(o offer) bool { return o.name == t.Name }) {
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

// compile makes tools of offers. One that cannot be called is left out.
func (l *link) compile(offers []offer, own int) []tool.Tool {
	names := make([]string, len(offers))
	for i, o := range offers {
		names[i] = o.name
	}
	names = nameAll(l.cfg.Name, names, own)
	var tools []tool.Tool
	room := maxSpecs
	for i, o := range offers {
		o.spec.Name = names[i]
		t, err := tool.Compile(&remoteTool{offer: o, l: l})
		size := len(o.spec.Description) + len(o.spec.InputSchema) + len(o.spec.OutputSchema)
		if err == nil && size > room {
			err = fmt.Errorf("tool %s: there is no room for its %d bytes of description", o.spec.Name, size)
		}
		if err != nil {
			l.log.Warn("tool of an MCP server left out: " + err.Error())
			continue
		}
		room -= size
		tools = append(tools, t)
	}
	slices.SortFunc(tools, func(a, b tool.Tool) int { return strings.Compare(a.Spec().Name, b.Spec().Name) })
	return tools
}
