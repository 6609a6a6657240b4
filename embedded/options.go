package embedded

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"
)

// Option configures [Start]. Contradictory options are an error.
type Option func(*config) error

// config holds the options of one server.
type config struct {
	log        *zap.Logger
	store      string // absolute; "": memory and a private directory
	sync       bool
	listen     *address // nil: no socket
	monitor    *address // nil: no monitoring port
	user, pass string
	token      string
	settings   *server.Options // from nats-server's syntax; nil: none
	guarded    bool            // they name users or a token
}

// address is a host and port to listen on; port 0 means any free port.
type address struct {
	host string
	port int
}

func (a address) String() string { return net.JoinHostPort(a.host, strconv.Itoa(a.port)) }

// reachable returns the host for clients: every address of a machine includes this one.
func (a address) reachable() string {
	if ip := net.ParseIP(a.host); ip != nil && ip.IsUnspecified() {
		return "127.0.0.1"
	}
	return a.host
}

func configure(opts []Option) (config, error) {
	cfg := config{log: zap.NewNop()}
	for _, opt := range opts {
		if err := opt(&cfg); err != nil {
			return config{}, err
		}
	}
	switch {
	case cfg.sync && cfg.store == "":
		return cfg, errors.New("WithSync needs a store directory: nothing can be synced in memory")
	case cfg.settings != nil && cfg.user+cfg.token != "":
		return cfg, errors.New("a user or token cannot be combined with a nats-server configuration: configure the user there")
	case cfg.user != "" && cfg.token != "":
		return cfg, errors.New("a user and a token cannot be combined")
	}
	return cfg, nil
}

// Check returns the error that [Start] would return for contradictory or invalid options.
func Check(opts ...Option) error {
	_, err := configure(opts)
	return err
}

// WithStore keeps streams in dir, which is created if needed. A later server on the same directory
// finds them. Without this option, streams live in memory and in a private directory that Close
// removes.
func WithStore(dir string) Option {
	return func(c *config) error {
		if dir == "" {
			return errors.New("store directory is empty: omit the option to store everything in memory")
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			return fmt.Errorf("store directory %s: %w", dir, err)
		}
		if c.store != "" && c.store != abs {
			return fmt.Errorf("two store directories, %s and %s: give one", c.store, abs)
		}
		c.store = abs
		return nil
	}
}

// WithSync syncs every write to disk before it is acknowledged. It requires [WithStore].
func WithSync() Option {
	return func(c *config) error {
		c.sync = true
		return nil
	}
}

// WithListener also accepts TCP connections at addr, host:port. Port 0 or -1 takes any free port;
// see [Server.ClientURL]. An empty host listens on every address of the machine.
func WithListener(addr string) Option {
	return func(c *config) error {
		a, err := parseAddress(addr)
		if err != nil {
			return err
		}
		if c.listen != nil && *c.listen != a {
			return fmt.Errorf("two listen addresses, %s and %s: give one", c.listen, a)
		}
		c.listen = &a
		return nil
	}
}

// WithMonitor serves the server's monitoring pages over HTTP at addr, host:port: /healthz, /varz, /jsz and others. They
// show names, numbers and the configuration to everyone who reaches the address, and no content of streams. Port 0
// takes any free port; see [Server.MonitorURL].
func WithMonitor(addr string) Option {
	return func(c *config) error {
		a, err := parseAddress(addr)
		if err != nil {
			return fmt.Errorf("monitoring: %w", err)
		}
		c.monitor = &a
		return nil
	}
}

func parseAddress(s string) (address, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return address{}, fmt.Errorf("listen address %q is not host:port: use a form like 127.0.0.1:4222", s)
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < -1 || n > 65535 {
		return address{}, fmt.Errorf("listen address %q: port %q is not a number from 0 (any free port) to 65535", s, port)
	}
	if host == "" {
		host = "0.0.0.0"
	}
	return address{host: host, port: max(n, 0)}, nil
}

// WithUser requires this name and password of every connection. [Server.Connect] supplies them.
func WithUser(name, password string) Option {
	return func(c *config) error {
		if name == "" || password == "" {
			return errors.New("a user needs a name and a password")
		}
		c.user, c.pass = name, password
		return nil
	}
}

// WithToken requires this token of every connection. [Server.Connect] supplies it.
func WithToken(token string) Option {
	return func(c *config) error {
		if token == "" {
			return errors.New("the token is empty")
		}
		c.token = token
		return nil
	}
}

// WithSettings applies settings in the syntax of nats-server's configuration files: users and their
// permissions, TLS, clusters, limits of messages and storage. The other options take precedence. If the
// settings name users, pass one of them to [Server.Connect].
func WithSettings(text string) Option {
	return func(c *config) error {
		o := &server.Options{}
		if err := o.ProcessConfigString(text); err != nil {
			return fmt.Errorf("nats-server configuration: %s", strings.TrimSpace(err.Error())) // it ends with a new line
		}
		c.settings = o
		c.guarded = o.Username+o.Authorization != "" || len(o.Users)+len(o.Nkeys)+len(o.TrustedOperators) > 0
		return nil
	}
}

// WithLogger logs the server's warnings and errors at their own levels and everything else at debug
// level. By default the server logs nothing.
func WithLogger(log *zap.Logger) Option {
	return func(c *config) error {
		if log == nil {
			return errors.New("the logger is nil: omit the option to log nothing")
		}
		c.log = log
		return nil
	}
}
