// Package blob keeps large payloads in a NATS object store, named by the hexadecimal SHA-256 of their
// bytes. It uses the store's own format, so that NATS tools can read them.
//
// It does not use the store's client: batches of direct gets need no consumer, and an existing blob is not
// written again.
//
// Unreferenced blobs are collected. So a writer that finds its blob in the store renews it: it writes the
// description again, guarded by the last one. A collector retires a blob with a guarded description too,
// and only if the last one is old. The later of the two conflicts.
package blob

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// NameLen is the length of a blob's name.
const NameLen = 2 * sha256.Size

func notHex(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') }

// IsName reports whether a text can be the name of a blob.
func IsName(text string) bool { return len(text) == NameLen && !strings.ContainsFunc(text, notHex) }

// Names yields everything in data that may be the name of a blob.
func Names(data []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		run := 0 // number of hexadecimal digits in a row
		for i, c := range data {
			if run++; notHex(rune(c)) {
				run = 0
			}
			if run >= NameLen && !yield(data[i+1-NameLen:i+1]) {
				return
			}
		}
	}
}

// ErrMissing is returned for a blob that is not in the store, or whose digest is not its name.
var ErrMissing = errors.New("blob is missing or damaged")

// ErrTooLarge is returned for a payload that exceeds a limit.
var ErrTooLarge = errors.New("payload is too large")

// chunkSize is the size of a blob's messages.
const chunkSize = 128 << 10

// Store is the object store of a cell. It is safe for concurrent use.
type Store struct {
	api   *api.Conn
	names layout.Names
}

// NewStore returns the store of a cell.
func NewStore(c *api.Conn, n layout.Names) *Store { return &Store{api: c, names: n} }

// Meta is an object store's description of an object.
type Meta struct {
	Name    string    `json:"name"`
	Bucket  string    `json:"bucket"`
	NUID    string    `json:"nuid"`
	Size    uint64    `json:"size"`
	Chunks  uint32    `json:"chunks"`
	Digest  string    `json:"digest"`
	ModTime time.Time `json:"mtime"`
	Deleted bool      `json:"deleted,omitempty"` // retired: earlier descriptions no longer count
	Options *options  `json:"options,omitempty"`
}

type options struct {
	ChunkSize uint32 `json:"max_chunk_size,omitempty"`
}

func digestText(d [sha256.Size]byte) string {
	return "SHA-256=" + base64.URLEncoding.EncodeToString(d[:])
}

// Repeats reports whether m describes the same blob as other, written at another time.
func (m Meta) Repeats(other Meta) bool {
	return m.Name == other.Name && m.NUID == other.NUID && m.Size == other.Size && m.Chunks == other.Chunks &&
		m.Digest == other.Digest && m.Deleted == other.Deleted
}

// parse returns the description in a message, unless it is invalid or retires the blob.
func (s *Store) parse(m api.Message) (Meta, bool) {
	var meta Meta
	ok := !m.Spoofed && json.Unmarshal(m.Data, &meta) == nil && !meta.Deleted &&
		m.Subject == s.names.BlobMeta(meta.Name)
	return meta, ok
}
