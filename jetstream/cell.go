// Package jetstream keeps Turnlog's contracts in NATS JetStream: journals, the inbox of commands, run
// tokens, task queues, timers, schedules, the catalog, blobs and snapshots. Sessions, workers and
// clients use it while they run. Package admin creates and maintains the streams.
//
// A [Cell] is one set of streams for any number of sessions. A session is a subject, never a stream
// or a consumer. subjects.md lists every stream and subject with its writers and readers; a test
// compares it with the code.
//
// Only a session's driver writes its journal, and each append is guarded by the sequence of the last
// entry on the session's own subject. Each role that sends commands has its own lane. Only the
// server publishes under the live prefix.
package jetstream

import (
	"context"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/semaphore"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/blob"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/internal/sealing"
	"github.com/turnlog/turnlog/jetstream/internal/signing"
)

// DefaultNamespace is the default namespace of a cell.
const DefaultNamespace = layout.DefaultNamespace

// Cell is one set of streams, used over one connection. It is safe for concurrent use.
type Cell struct {
	nc    *nats.Conn
	api   *api.Conn
	names layout.Names
	user  string // the name that the server verifies; "": none
	blobs *blob.Store
	keys  signing.Keys
	seals *sealing.Keys

	decoding *semaphore.Weighted // memory for decoding commands
}

// ParseNamespace validates the name of a cell. The empty name means DefaultNamespace.
func ParseNamespace(name string) (string, error) { return layout.ParseNamespace(name) }

// Open returns the cell with a namespace, without a request to the server. admin.Provision creates
// the streams that all other operations require. The caller closes the connection.
func Open(nc *nats.Conn, namespace string) (*Cell, error) {
	namespace, err := layout.ParseNamespace(namespace)
	if err != nil {
		return nil, err
	}
	c := &Cell{
		nc: nc, api: api.New(nc), names: layout.New(namespace), user: layout.UserOfInbox(nc.Opts.InboxPrefix),
		decoding: semaphore.NewWeighted(decodingMemory),
	}
	c.keys.Cell = c.names.NS
	c.blobs = blob.NewStore(c.api, c.names)
	c.seals = newSeals(c, nil)
	return c, nil
}

// Namespace returns the first token of the cell's subjects.
func (c *Cell) Namespace() string { return c.names.NS }

// User returns the name under which this connection sends commands, from its inbox prefix: _USER_ada
// is ada's. The server denies other users that prefix and that name. Without such a prefix it is empty.
func (c *Cell) User() string { return c.user }

// Signing returns the cell, over the same connection, with a key that signs what it writes: entries,
// commands, and reports of workers. With nil nothing is signed.
func (c *Cell) Signing(key *keys.Signer) *Cell {
	out := *c
	out.keys.Own = key
	return &out
}

// Checking returns the cell, over the same connection, with a directory of keys. Queues use it to check
// that a driver sent what workers get. With nil nothing is checked.
func (c *Cell) Checking(newest func() *keys.Directory) *Cell {
	out := *c
	out.keys.Directory = newest
	return &out
}

// Key returns the key of Signing, or nil.
func (c *Cell) Key() *keys.Signer { return c.keys.Own }

// Conn returns the cell's connection.
func (c *Cell) Conn() *nats.Conn { return c.nc }

const (
	// maxCommand is the largest command. The session's driver keeps it in memory.
	maxCommand = 128 << 20

	// decodingMemory is the memory that fetching and decoding commands for all of a connection's sessions may
	// take. A command that may need more waits until it has all of it.
	decodingMemory = 256 << 20
)

// maxInline is the largest payload stored in a message. Larger ones go to the object store, which
// keeps reads of many messages cheap and allows payloads beyond the server's largest message.
const maxInline = 64 << 10

// put puts data into a message with a header map. It writes large data to the object store.
func (c *Cell) put(ctx context.Context, msg *nats.Msg, data []byte) error {
	if len(data) <= maxInline {
		msg.Data = data
		return nil
	}
	name, err := c.blobs.Put(ctx, data)
	msg.Header.Set(layout.HeaderBlob, name)
	return err
}

// get reverses put: it returns data itself, or the blob that the headers name, up to a limit in
// bytes; 0 means no limit, for what only drivers write. It returns ErrBlobMissing if the blob is
// missing or damaged, and ErrTooLarge if it exceeds the limit.
func (c *Cell) get(ctx context.Context, h nats.Header, data []byte, limit int64) ([]byte, error) {
	name := h.Get(layout.HeaderBlob)
	if name == "" {
		return data, nil
	}
	return c.blobs.Get(ctx, name, limit)
}

func encodeValue(v any) ([]byte, error) { return wire.Marshal(v, wire.Command) }

func decodeValue(data []byte, v any) error { return wire.Unmarshal(data, wire.Command, v) }

// Errors of every operation.
var (
	// ErrNoJetStream is returned when the connection's account has no JetStream. Enable it, or
	// connect to another server.
	ErrNoJetStream = api.ErrNoJetStream

	// ErrFull is returned when a server, the account or a stream has no room for a write. Nothing was
	// written. Give JetStream more room or delete data, then retry.
	ErrFull = api.ErrFull

	// ErrNotProvisioned is returned when a stream or bucket of the cell is missing.
	// Provision the cell, or correct the namespace.
	ErrNotProvisioned = api.ErrNotProvisioned

	// ErrBlobMissing is returned for a message whose payload is missing from the object store or
	// damaged there. The message cannot be used.
	ErrBlobMissing = blob.ErrMissing

	// ErrTooLarge is returned by Send for a command of more than 128 MiB. Store the data in Blobs,
	// or where tools can read it, and send its name.
	ErrTooLarge = blob.ErrTooLarge
)

// DeniedError is returned for an operation that the server does not permit this user.
type DeniedError = api.DeniedError

// Denied parses a connection's permission violation. It returns false for any other error.
func Denied(err error) (*DeniedError, bool) { return api.Denied(err) }
