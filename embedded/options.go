package embedded

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"
)

// The largest message that NATS advises; far larger ones are known to corrupt
// reads, so they are not on offer.
const maxPayloadLimit = 8 << 20

// Option changes what [Start] and [StartCluster] set up. Options that contradict
// each other are an error, never a silent choice.
type Option func(*config) error

// config is what the options say; it is not changed after configure.
type config struct {
	log *zap.Logger

	// Where messages are kept. An empty store is a private directory.
	store     string
	memory    bool // no store was given, nothing outlives the server
	sync      bool
	maxStore  int64
	maxMemory int64

	// Access. Without listen there is no socket.
	listen     *address
	tls        *tls.Config
	user, pass string
	text       string // in the syntax of nats-server

	maxPayload int32
}

// address is a host and port to listen on; port 0 means any free one.
type address struct {
	host string
	port int
}

func (a address) String() string { return net.JoinHostPort(a.host, strconv.Itoa(a.port)) }

func configure(opts []Option) (config, error) {
	cfg := config{log: zap.NewNop()}
	for _, opt := range opts {
		if err := opt(&cfg); err != nil {
			return config{}, err
		}
	}
	cfg.memory = cfg.store == ""
	return cfg, cfg.validate()
}

// Check returns the error that [Start] would return for the options as such.
func Check(opts ...Option) error {
	_, err := configure(opts)
	return err
}

func (c *config) validate() error {
	switch {
	case c.sync && c.store == "":
		return errors.New("writes cannot be synced in memory: give a store directory too")
	case c.maxStore > 0 && c.store == "":
		return errors.New("a limit for the store needs a store directory; in memory use the limit for memory")
	case c.text != "" && c.user != "":
		return errors.New("one user and settings in the syntax of nats-server at once: name the user there")
	case c.tls != nil && c.listen == nil:
		return errors.New("TLS needs a listener: connections in the process are not encrypted")
	}
	return nil
}

// WithStore keeps streams in dir, which is created if need be, so that a later
// server on the same directory finds them. Without this option they live in
// memory and in a private directory that Close removes.
func WithStore(dir string) Option {
	return func(c *config) error {
		if dir == "" {
			return errors.New("store directory is empty: leave the option out to keep everything in memory")
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

// WithSync syncs every write to disk before it is acknowledged. It needs
// [WithStore].
func WithSync() Option {
	return func(c *config) error {
		c.sync = true
		return nil
	}
}

// WithListener also accepts connections over TCP at addr, host:port. Port 0 or
// -1 takes any free port, which [Server.ClientURL] then tells. An empty host is
// every address of the machine.
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

func parseAddress(s string) (address, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return address{}, fmt.Errorf("listen address %q is not host:port: write it like 127.0.0.1:4222", s)
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < -1 || n > 65535 {
		return address{}, fmt.Errorf("listen address %q: port %q is not a number from 0 (any free one) to 65535", s, port)
	}
	if host == "" {
		host = "0.0.0.0"
	}
	return address{host: host, port: max(n, 0)}, nil
}

// WithTLS encrypts the listener with cfg, which must carry a certificate.
// Connections in the process stay as they are.
func WithTLS(cfg *tls.Config) Option {
	return func(c *config) error {
		if cfg == nil || (len(cfg.Certificates) == 0 && cfg.GetCertificate == nil) {
			return errors.New("the TLS configuration has no certificate")
		}
		c.tls = cfg
		return nil
	}
}

// WithUser requires this name and password of every connection. [Server.Connect]
// supplies them.
func WithUser(name, password string) Option {
	return func(c *config) error {
		if name == "" || password == "" {
			return errors.New("a user needs a name and a password")
		}
		c.user, c.pass = name, password
		return nil
	}
}

// WithSettings applies settings in the syntax of nats-server's configuration files, such
// as users and what each is permitted. What the other options say wins over them. Where
// they name users, [Server.Connect] has to be told which one connects.
func WithSettings(text string) Option {
	return func(c *config) error {
		if err := (&server.Options{}).ProcessConfigString(text); err != nil {
			return fmt.Errorf("settings of nats-server: %w", err)
		}
		c.text = text
		return nil
	}
}

// WithLogger logs the server's warnings and errors as such, everything else at
// debug level. Without this option it is silent.
func WithLogger(log *zap.Logger) Option {
	return func(c *config) error {
		if log == nil {
			return errors.New("the logger is nil: leave the option out for silence")
		}
		c.log = log
		return nil
	}
}

// WithMaxPayload sets the largest message in bytes, up to 8 MiB. The default is
// 1 MiB.
func WithMaxPayload(bytes int) Option {
	return func(c *config) error {
		if bytes <= 0 || bytes > maxPayloadLimit {
			return fmt.Errorf("largest message of %d bytes: give 1 to %d", bytes, maxPayloadLimit)
		}
		c.maxPayload = int32(bytes)
		return nil
	}
}

// WithMaxStore limits what all streams on disk may take, in bytes. The default is
// three quarters of what was free at the start. It needs [WithStore].
func WithMaxStore(bytes int64) Option {
	return func(c *config) error {
		if bytes <= 0 {
			return fmt.Errorf("store limit of %d bytes: give more than 0, or leave the option out", bytes)
		}
		c.maxStore = bytes
		return nil
	}
}

// WithMaxMemory limits what all streams in memory may take, in bytes. The default
// is three quarters of the machine's memory, or of GOMEMLIMIT.
func WithMaxMemory(bytes int64) Option {
	return func(c *config) error {
		if bytes <= 0 {
			return fmt.Errorf("memory limit of %d bytes: give more than 0, or leave the option out", bytes)
		}
		c.maxMemory = bytes
		return nil
	}
}
