// Package jetstream keeps Turnlog's contracts in NATS JetStream: the journal, the
// inbox of commands, run tokens, task queues, timers, the catalog, blobs and
// snapshots. It is what sessions, workers and clients use while they run; package
// admin creates and looks after what they use.
//
// The one idea: one [Cell] is one set of streams for any number of sessions. A session is a
// subject, never a stream and never a consumer. subjects.md lists what each stream and subject
// is for and who may write it; a test compares it with the code.
//
// Who owns what: the journal is written by the session's driver alone, guarded by the sequence
// of its last entry on exactly its own subject. Commands are written by every role that has a
// lane. Only the server publishes under the live prefix.
package jetstream

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/blob"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// DefaultNamespace is the namespace of a cell that is not given one.
const DefaultNamespace = layout.DefaultNamespace

// Cell is one set of streams, reached over one connection. It is safe for concurrent use.
type Cell struct {
	nc    *nats.Conn
	api   *api.Conn
	names layout.Names
	blobs *blob.Store
}

// ParseNamespace validates the name of a cell. The empty name means DefaultNamespace.
func ParseNamespace(name string) (string, error) { return layout.ParseNamespace(name) }

// Open returns the cell with a namespace. It does not talk to the server: admin.Provision
// creates what a cell needs, and everything else expects it to be there. The connection stays
// the caller's to close.
func Open(nc *nats.Conn, namespace string) (*Cell, error) {
	namespace, err := layout.ParseNamespace(namespace)
	if err != nil {
		return nil, err
	}
	c := &Cell{nc: nc, api: api.New(nc), names: layout.New(namespace)}
	c.blobs = blob.NewStore(c.api, c.names)
	return c, nil
}

// Namespace returns the first token of the cell's subjects.
func (c *Cell) Namespace() string { return c.names.NS }

// Conn returns the connection that the cell is reached over.
func (c *Cell) Conn() *nats.Conn { return c.nc }

// maxInline is the largest payload that travels in a message. A larger one goes to the object
// store, so that reading many messages stays cheap and a payload may exceed the server's
// largest message.
const maxInline = 64 << 10

// pack returns the payload of a message that carries data, and the headers that it needs, nil
// for none. A large payload is in the object store when pack returns.
func (c *Cell) pack(ctx context.Context, data []byte) (nats.Header, []byte, error) {
	if len(data) <= maxInline {
		return nil, data, nil
	}
	name, err := c.blobs.Put(ctx, data)
	if err != nil {
		return nil, nil, err
	}
	return nats.Header{layout.HeaderBlob: []string{name}}, nil, nil
}

// unpack returns what pack was given: data itself, or the blob that the headers name, up to a
// limit in bytes; 0 means no limit. It returns ErrBlobMissing if the blob is missing or has
// another digest, and ErrTooLarge if it exceeds the limit.
func (c *Cell) unpack(ctx context.Context, h nats.Header, data []byte, limit int) ([]byte, error) {
	name := h.Get(layout.HeaderBlob)
	if name == "" {
		return data, nil
	}
	return c.blobs.Get(ctx, name, limit)
}

// withHeader sets a header, which may be the first.
func withHeader(h nats.Header, name string, values ...string) nats.Header {
	if h == nil {
		h = nats.Header{}
	}
	h[name] = values
	return h
}

// Errors of every operation.
var (
	// ErrNoJetStream is returned when the connection's account has no JetStream. Enable it
	// on the server, or connect to a server that has it.
	ErrNoJetStream = api.ErrNoJetStream

	// ErrFull is returned when a server or the account has no room for a write. Nothing
	// was written. Give JetStream more room or delete something, then retry.
	ErrFull = api.ErrFull

	// ErrNotProvisioned is returned when a stream or bucket of the cell is missing.
	// Provision the cell, or correct the namespace.
	ErrNotProvisioned = api.ErrNotProvisioned

	// ErrBlobMissing is returned for a message whose payload should be in the object store
	// and is missing or damaged. The message cannot be used.
	ErrBlobMissing = blob.ErrMissing

	// ErrTooLarge is returned by Send for an ask that exceeds the limit of a session. Store
	// large data in Blobs, or where tools find it, and send its name.
	ErrTooLarge = blob.ErrTooLarge
)

// DeniedError is returned for an operation that the server does not permit this user.
type DeniedError = api.DeniedError

// Denied parses what a connection reports when its user is denied something. It returns false
// for any other error.
func Denied(err error) (*DeniedError, bool) { return api.Denied(err) }
