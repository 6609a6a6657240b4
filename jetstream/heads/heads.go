// Package heads keeps the log of heads of a cell (package headlog) in its streams.
//
// The state of the log is one message, which is replaced with a guarded write. It has the root, the leaves
// and hashes that are not in full tiles, and the tiles that the last append filled. So an append is atomic,
// and of two concurrent writers one gets a conflict. Everything else follows from that message, and any
// writer that finds it missing can write it again: full tiles, which the server never replaces, the
// published checkpoint, and the place of each session's newest head.
//
// A notary writes here, and an observer reads.
package heads

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/content"
	turnlog "github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/blob"
	"github.com/turnlog/turnlog/jetstream/internal/bucket"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

var (
	// ErrConflict is returned by Commit and Publish if another notary has written in the meantime. Read
	// again.
	ErrConflict = errors.New("another notary wrote to the log")

	// ErrNoLog is returned if the cell has no log, or no published one. Start a notary.
	ErrNoLog = errors.New("there is no log of heads")

	// ErrNotLogged is returned for a session without a published leaf.
	ErrNotLogged = errors.New("the session is not logged yet")

	// ErrDamaged is returned if the stored data is not what a notary writes.
	ErrDamaged = errors.New("the log of heads is damaged")
)

// Store is the log of a cell. It is safe for concurrent use.
type Store struct {
	api    *api.Conn
	names  layout.Names
	values bucket.Bucket[[]byte]
	newest bucket.Bucket[position]
}

// position is where a session's newest leaf is.
type position struct {
	Index int64  `msgpack:"i"`
	Seq   uint64 `msgpack:"s"` // of the entry
}

// Of returns the log of a cell.
func Of(c *turnlog.Cell) *Store {
	conn, n := api.New(c.Conn()), layout.New(c.Namespace())
	return &Store{
		api: conn, names: n,
		values: bucket.OfBytes(conn, "value of the log", n.Checkpoints(), 1),
		newest: bucket.OfValues[position](conn, "newest leaf", n.Checkpoints(), layout.NewestKeys, 1, 0),
	}
}

// State returns the state of the log and its number, which guards the next Commit. The number is 0 if there
// is no log.
func (s *Store) State(ctx context.Context) (headlog.State, uint64, error) {
	it, ok, err := s.values.Get(ctx, layout.TreeKey)
	if err != nil || !ok {
		return headlog.State{}, it.Seq, damaged(err)
	}
	state, err := headlog.ParseState(it.Value)
	return state, it.Seq, damaged(err)
}

// damaged marks errors that mean that other data is stored.
func damaged(err error) error {
	if errors.Is(err, headlog.ErrBadState) || errors.Is(err, headlog.ErrInconsistent) || errors.Is(err, api.ErrSpoofed) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// Commit replaces the state with the number last and returns the new number. It returns ErrConflict if that
// state was already replaced, perhaps by an earlier attempt of this Commit whose answer was lost.
func (s *Store) Commit(ctx context.Context, state headlog.State, last uint64) (uint64, error) {
	data, err := state.Encode()
	if err != nil {
		return 0, err
	}
	return s.put(ctx, layout.TreeKey, data, last)
}

func (s *Store) put(ctx context.Context, key string, data []byte, last uint64) (uint64, error) {
	seq, err := s.values.Put(ctx, key, data, last)
	if api.IsConflict(err) {
		err = fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return seq, err
}

// Checkpoint returns the newest published checkpoint, a signed note, and its number; 0: none.
func (s *Store) Checkpoint(ctx context.Context) (signed []byte, seq uint64, err error) {
	it, _, err := s.values.Get(ctx, layout.CheckpointKey)
	return it.Value, it.Seq, damaged(err)
}

// Publish replaces the published checkpoint with the number last.
func (s *Store) Publish(ctx context.Context, signed []byte, last uint64) error {
	_, err := s.put(ctx, layout.CheckpointKey, signed, last)
	return err
}

// PutTile stores a full tile unless it is stored already. It returns ErrDamaged if another tile has its
// path.
func (s *Store) PutTile(ctx context.Context, t headlog.Tile) error {
	sum := sha256.Sum256(t.Data)
	id := hex.EncodeToString(sum[:])
	meta, err := json.Marshal(blob.Meta{
		Name: t.Path, Bucket: s.names.TileBucket(), NUID: id, Size: uint64(len(t.Data)), Chunks: 1,
		Digest: "SHA-256=" + base64.URLEncoding.EncodeToString(sum[:]), ModTime: time.Now().UTC(),
	})
	if err == nil {
		err = s.once(ctx, s.names.TileChunks(id), t.Data)
	}
	if err == nil {
		err = s.once(ctx, s.names.TileMeta(t.Path), meta)
	}
	if err != nil {
		return fmt.Errorf("put %s: %w", t.Path, err)
	}
	there, err := s.describe(ctx, t.Path)
	if err == nil && there.NUID != id {
		err = fmt.Errorf("put %s: %w: a different tile exists, with the hash %s", t.Path, ErrDamaged, there.NUID)
	}
	return err
}

// once stores a message unless its subject has one already, which the server does not replace.
func (s *Store) once(ctx context.Context, subject string, data []byte) error {
	err := api.Patiently(ctx, func(ctx context.Context) error {
		_, err := s.api.Publish(ctx, &nats.Msg{Subject: subject, Data: data})
		return err
	})
	if api.IsAlreadyThere(err) {
		return nil
	}
	if err != nil {
		return s.api.Explain(ctx, s.names.TileStream(), err)
	}
	return nil
}

// describe returns the description of a tile.
func (s *Store) describe(ctx context.Context, path string) (blob.Meta, error) {
	m, err := s.api.Last(ctx, s.names.TileStream(), s.names.TileMeta(path))
	var meta blob.Meta
	switch {
	case errors.Is(err, api.ErrNoMessage):
		return meta, fmt.Errorf("%w: %s is missing", ErrDamaged, path)
	case err != nil:
		return meta, fmt.Errorf("get %s: %w", path, err)
	case m.Spoofed || json.Unmarshal(m.Data, &meta) != nil || meta.Name != path:
		return meta, fmt.Errorf("%w: %s has no description", ErrDamaged, path)
	}
	return meta, nil
}

// Tile returns a full tile.
func (s *Store) Tile(ctx context.Context, path string) ([]byte, error) {
	meta, err := s.describe(ctx, path)
	if err != nil {
		return nil, err
	}
	m, err := s.api.Last(ctx, s.names.TileStream(), s.names.TileChunks(meta.NUID))
	if errors.Is(err, api.ErrNoMessage) {
		return nil, fmt.Errorf("%w: the bytes of %s are missing", ErrDamaged, path)
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", path, err)
	}
	if sum := sha256.Sum256(m.Data); hex.EncodeToString(sum[:]) != meta.NUID {
		return nil, fmt.Errorf("%w: the bytes of %s have a different hash", ErrDamaged, path)
	}
	return m.Data, nil
}

// Reader returns a reader of the tree at a root: the state's, or an earlier one.
func (s *Store) Reader(ctx context.Context, state headlog.State, at tlog.Tree) (*headlog.Reader, error) {
	r, err := state.Reader(at, func(path string) ([]byte, error) { return s.Tile(ctx, path) })
	return r, damaged(err)
}

// Record records where the newest leaf of a session is. An older leaf does not replace a newer one.
func (s *Store) Record(ctx context.Context, index int64, l headlog.Leaf) error {
	key := string(l.Session)
	for {
		it, ok, err := s.newest.Get(ctx, key)
		if err != nil || ok && (it.Value.Seq > l.Seq || it.Value.Index >= index) {
			return err
		}
		if _, err = s.newest.Put(ctx, key, position{index, l.Seq}, it.Seq); !api.IsConflict(err) {
			return err
		}
	}
}

// Prove returns the proof that the published checkpoint covers the newest published leaf of a session.
func (s *Store) Prove(ctx context.Context, id content.SessionID) (headlog.Proof, error) {
	p, err := s.prove(ctx, id)
	if err != nil {
		return p, fmt.Errorf("prove session %s: %w", id, err)
	}
	return p, nil
}

func (s *Store) prove(ctx context.Context, id content.SessionID) (p headlog.Proof, err error) {
	newest, ok, err := s.newest.Get(ctx, string(id))
	if err != nil {
		return p, err
	}
	signed, at, err := s.Published(ctx)
	if err != nil {
		return p, err
	}
	if !ok {
		return p, ErrNotLogged
	}
	state, _, err := s.State(ctx)
	if err != nil {
		return p, err
	}
	r, err := s.Reader(ctx, state, at.Tree)
	if err != nil {
		return p, err
	}
	text, err := r.Leaf(newest.Value.Index)
	if err != nil {
		return p, damaged(err)
	}
	p = headlog.Proof{Index: newest.Value.Index, Checkpoint: signed}
	if p.Leaf, err = headlog.ParseLeaf(text); err == nil && p.Leaf.Session != id {
		err = fmt.Errorf("leaf %d is of session %s", p.Index, p.Leaf.Session)
	}
	if err != nil {
		return p, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	p.Hashes, err = r.Prove(p.Index)
	return p, damaged(err)
}

// Published returns the published checkpoint, without verifying its signatures, or ErrNoLog.
func (s *Store) Published(ctx context.Context) (signed []byte, at headlog.Checkpoint, err error) {
	signed, seq, err := s.Checkpoint(ctx)
	if err == nil && seq == 0 {
		err = ErrNoLog
	}
	if err != nil {
		return nil, at, err
	}
	if at, err = headlog.Unverified(signed); err != nil {
		return nil, at, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return signed, at, nil
}
