package jetstream

import (
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/content"
)

// DefaultNamespace is the first token of a cell's subjects if nothing else is said.
const DefaultNamespace = "turnlog"

// Cell is one set of streams, reached over one connection. It is safe for
// concurrent use. The connection stays its opener's to close.
type Cell struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	names names
}

// ParseNamespace checks the name of a cell; "" is DefaultNamespace.
func ParseNamespace(name string) (string, error) {
	if name == "" {
		return DefaultNamespace, nil
	}
	if !content.IsToken(name) {
		return "", fmt.Errorf("namespace %q: use letters, digits, '-' or '_'", name)
	}
	return name, nil
}

// Open returns the cell with that namespace. It does not talk to the server;
// Provision creates what a cell needs, and everything else expects it to be there.
func Open(nc *nats.Conn, namespace string) (*Cell, error) {
	namespace, err := ParseNamespace(namespace)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open cell %s: %w", namespace, err)
	}
	return &Cell{nc: nc, js: js, names: newNames(namespace)}, nil
}

// Namespace is the first token of the cell's subjects.
func (c *Cell) Namespace() string { return c.names.ns }
