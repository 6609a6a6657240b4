// Package signers keeps the directory of keys in a stream of a cell, one message for each version.
//
// The stream keeps the first message on each subject and deletes nothing, so a version can be neither
// replaced nor removed without deleting the stream. Only the root's signature makes a version count.
// Readers take the highest version that has it, and skip everything else.
package signers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// ErrNone is returned if a cell has no directory signed by the root. Publish one.
var ErrNone = errors.New("the cell has no directory of keys that the root signed")

// ErrTaken is returned by Publish if the cell has a different directory with this version. Sign a higher
// version.
var ErrTaken = errors.New("the cell has a different directory with this version")

// Publish stores a version of the directory as Directory.Sign returned it. Publishing it again has no
// effect.
func Publish(ctx context.Context, cell *jetstream.Cell, version uint64, signed []byte) error {
	conn, names := api.New(cell.Conn()), layout.New(cell.Namespace())
	subject := names.Signers(version)
	err := api.Patiently(ctx, func(ctx context.Context) error {
		_, err := conn.Publish(ctx, &nats.Msg{Subject: subject, Data: signed})
		return err
	})
	if api.IsAlreadyThere(err) {
		m, lastErr := conn.Last(ctx, names.SignersStream(), subject)
		switch {
		case lastErr == nil && !m.Spoofed && bytes.Equal(m.Data, signed):
			return nil
		case lastErr == nil:
			err = ErrTaken
		default:
			err = lastErr
		}
	}
	if err != nil {
		return fmt.Errorf("publish version %d of the keys: %w", version, conn.Explain(ctx, names.SignersStream(), err))
	}
	return nil
}

// Version is a version of the directory that the root signed.
type Version struct {
	*keys.Directory

	Signed []byte
	Seq    uint64 // of its message
}

// Versions yields the versions signed by the root with a public key, after a message; 0: all. They are in
// the order in which they were published, and may contradict each other.
func Versions(ctx context.Context, cell *jetstream.Cell, root string, after uint64) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		for v, err := range messages(ctx, api.New(cell.Conn()), layout.New(cell.Namespace()), root, after) {
			if (err != nil || v.Directory != nil) && !yield(v, err) {
				return
			}
		}
	}
}

// Peek returns the newest directory that a cell has, or nil. It does not check who signed the directory;
// Open does.
func Peek(ctx context.Context, cell *jetstream.Cell) (newest *keys.Directory, err error) {
	conn, names := api.New(cell.Conn()), layout.New(cell.Namespace())
	for m, err := range conn.AllFromLeader(ctx, names.SignersStream(), names.AllSigners(), 1) {
		if api.IsNotFound(err) {
			return nil, nil //nolint:nilnil // a cell of an earlier release has none
		}
		if err != nil {
			return nil, fmt.Errorf("read the keys: %w", conn.Explain(ctx, names.SignersStream(), err))
		}
		if d, err := keys.Peek(m.Data); err == nil && d.Cell == names.NS && (newest == nil || d.Version > newest.Version) {
			newest = d
		}
	}
	return newest, nil
}

// messages yields all messages after one. A message that is not a version has no directory: anyone who may
// publish here may publish anything.
func messages(ctx context.Context, conn *api.Conn, names layout.Names, root string, after uint64) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		for m, err := range conn.AllFromLeader(ctx, names.SignersStream(), names.AllSigners(), after+1) {
			if err != nil {
				yield(Version{}, fmt.Errorf("read the keys: %w", conn.Explain(ctx, names.SignersStream(), err)))
				return
			}
			d, err := keys.Open(m.Data, root)
			if m.Spoofed || err != nil || d.Cell != names.NS {
				d = nil
			}
			if !yield(Version{d, m.Data, m.Seq}, nil) {
				return
			}
		}
	}
}

// Directory is the newest directory of a cell that was read so far. It is safe for concurrent use.
type Directory struct {
	api   *api.Conn
	names layout.Names
	root  string

	newest atomic.Pointer[keys.Directory]

	mu   sync.Mutex
	read uint64 // the last message
}

// Open reads the directory of a cell, signed by the root with a public key. It returns ErrNone if there is
// none, and keys.ErrBadKey if root is not a root's public key. With keys.ErrRolledBack it also returns the
// directory as it was before the root contradicted itself.
func Open(ctx context.Context, cell *jetstream.Cell, root string) (*Directory, error) {
	if err := keys.CheckRoot(root); err != nil {
		return nil, fmt.Errorf("root of the keys: %w", err)
	}
	d := &Directory{api: api.New(cell.Conn()), names: layout.New(cell.Namespace()), root: root}
	err := d.Refresh(ctx)
	switch {
	case errors.Is(err, keys.ErrRolledBack):
		return d, err
	case err != nil:
		return nil, err
	case d.Newest() == nil:
		return nil, None(cell, root)
	}
	return d, nil
}

// None adds what to do to ErrNone.
func None(cell *jetstream.Cell, root string) error {
	return fmt.Errorf("keys of cell %s: %w: run \"turnlog keys publish\" (root %s)", cell.Namespace(), ErrNone, root)
}

// Newest returns the newest version that was read.
func (d *Directory) Newest() *keys.Directory { return d.newest.Load() }

// Refreshed is the pause between two reads of newer versions.
const Refreshed = 5 * time.Second

// Follow reads newer versions until ctx ends. After each read it calls seen with the error, or nil, and
// ends with the error that seen returns. Otherwise it returns the cause of ctx's end.
func (d *Directory) Follow(ctx context.Context, seen func(error) error) error {
	for pause.For(ctx, Refreshed) {
		err := d.Refresh(ctx)
		if ctx.Err() != nil {
			break
		}
		if err := seen(err); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// Refresh reads the versions that were published since the last read. It returns keys.ErrRolledBack, and
// keeps what it has, if the root signed a version that contradicts an earlier one.
func (d *Directory) Refresh(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var contradiction error
	for v, err := range messages(ctx, d.api, d.names, d.root, d.read) {
		if err != nil {
			return err
		}
		next := v.Directory
		if d.read = v.Seq; next == nil {
			continue
		}
		if now := d.newest.Load(); now != nil && next.Version > now.Version {
			err = next.Follows(now)
		} else if now != nil {
			continue
		}
		if err != nil {
			contradiction = fmt.Errorf("read the keys: %w", err)
			continue
		}
		d.newest.Store(next)
	}
	return contradiction
}
