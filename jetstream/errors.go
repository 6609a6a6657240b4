package jetstream

import (
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/blob"
)

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
