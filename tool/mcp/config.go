package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// Server is one server. It has either a Command or a URL.
type Server struct {
	Name string // letters, digits, '-' and '_', at most 32

	Command []string          // a program and its arguments
	Env     map[string]string // its environment in addition to PATH and HOME; values may be references

	URL     string            // address of a server that speaks streamable HTTP
	Headers map[string]string // sent to its host only; values may be references
	Token   string            // a reference to a bearer token; "": none
	OAuth   auth.OAuthHandler // authorizes without a person, such as with client credentials; nil: none
	Scopes  []string          // scopes of its credentials, for policies to judge

	Timeout        time.Duration // of a call; 0: 2 min
	ConnectTimeout time.Duration // to connect and list tools; 0: 30 s, for a command 2 min

	// IgnoreHints treats every tool as unsafe to repeat, whatever the server says.
	IgnoreHints bool
}

// Config configures a [Manager].
type Config struct {
	Servers []Server
	Roots   []string // absolute directories that servers may ask for

	// Sampling answers requests for a model's reply. Nil: they are refused.
	Sampling func(ctx context.Context, server string, p *sdk.CreateMessageParams) (*sdk.CreateMessageResult, error)
	// Elicitation answers requests for a person's input. Nil: they are refused.
	Elicitation func(ctx context.Context, server string, p *sdk.ElicitParams) (*sdk.ElicitResult, error)

	Backoff Backoff                  // between attempts to connect
	Getenv  func(name string) string // nil: os.Getenv
	Version string                   // version of this program, sent to servers
	Logger  *zap.Logger              // nil: silent

	maxMessage int           // maximum bytes of one message from a server; 0: 16 MiB
	checkEvery time.Duration // how often to ask an idle server what it offers; 0: 1 min
}

// Backoff is the pause between attempts to connect: First, doubled each time up to Most.
type Backoff struct {
	First time.Duration // 0: 500 ms
	Most  time.Duration // 0: 30 s
}

const maxServerName = 32

// ErrUnknownServer is returned if the manager has no server of a name.
var ErrUnknownServer = errors.New("no such server")

// Check returns an error if the server is invalid.
func (s Server) Check() error {
	switch {
	case !content.IsToken(s.Name) || len(s.Name) > maxServerName:
		return fmt.Errorf("server %q: use a name of 1 to %d letters, digits, '-' or '_'", s.Name, maxServerName)
	case (len(s.Command) == 0) == (s.URL == ""):
		return fmt.Errorf("server %s: give either a command or a URL", s.Name)
	case s.Timeout < 0 || s.ConnectTimeout < 0:
		return fmt.Errorf("server %s: timeout %v, connect timeout %v: neither may be negative", s.Name, s.Timeout, s.ConnectTimeout)
	case s.URL == "" && (s.Token != "" || s.OAuth != nil || len(s.Headers) > 0):
		return fmt.Errorf("server %s: headers and tokens are for URLs; pass secrets to a program in its environment", s.Name)
	case s.URL != "" && len(s.Env) > 0:
		return fmt.Errorf("server %s: an environment is only for commands", s.Name)
	case s.Token != "" && !tool.IsReference(s.Token):
		return fmt.Errorf("server %s: token: use a reference, env:NAME or file:PATH", s.Name)
	}
	if err := s.checkHeaders(); err != nil {
		return fmt.Errorf("server %s: %w", s.Name, err)
	}
	if s.URL != "" {
		u, err := url.Parse(s.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("server %s: the URL must be like https://host/path", s.Name)
		}
	}
	return nil
}

// checkHeaders returns an error if a header is invalid or reserved.
func (s Server) checkHeaders() error {
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		switch key := http.CanonicalHeaderKey(name); {
		case !httpguts.ValidHeaderFieldName(name):
			return fmt.Errorf("header %q: is not a header name", name)
		case slices.Contains([]string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Content-Type", "Accept"}, key), strings.HasPrefix(key, "Mcp-"):
			return fmt.Errorf("header %s is reserved for the protocol", name)
		case key == "Authorization" && (s.Token != "" || s.OAuth != nil):
			return fmt.Errorf("header %s cannot be combined with a token", name)
		}
	}
	return nil
}

func (s Server) withDefaults() Server {
	connect := 30 * time.Second
	if len(s.Command) > 0 {
		connect = 2 * time.Minute // commands such as npx may download the program first
	}
	s.Timeout, s.ConnectTimeout = cmp.Or(s.Timeout, 2*time.Minute), cmp.Or(s.ConnectTimeout, connect)
	return s
}

// Address returns the program or URL, without anything that could be secret.
func (s Server) Address() string {
	if len(s.Command) > 0 {
		return filepath.Base(s.Command[0])
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// Check returns an error if the Config is invalid.
func (c Config) Check() error {
	for i, s := range c.Servers {
		if err := s.Check(); err != nil {
			return err
		}
		for _, other := range c.Servers[:i] {
			if other.Name == s.Name {
				return fmt.Errorf("two servers have the name %s", s.Name)
			}
			if clash(s.Name, other.Name) || clash(other.Name, s.Name) {
				return fmt.Errorf("servers %s and %s: their tools could have the same names; use '-' for '_'", other.Name, s.Name)
			}
		}
	}
	for _, root := range c.Roots {
		if !filepath.IsAbs(root) {
			return fmt.Errorf("root %q: use an absolute path", root)
		}
	}
	if c.Backoff.First < 0 || c.Backoff.Most < 0 {
		return errors.New("a backoff must not be negative")
	}
	return nil
}

// clash reports whether a tool of the server short could have the name of a tool of long.
func clash(short, long string) bool { return strings.HasPrefix(long, short+"_") }
