// Package sealing keeps the wrapped keys of sealed sessions in a stream of a cell, and seals messages with them.
//
// A session is sealed if it has had a key since its beginning. The first message on a subject stays, so a
// key cannot be replaced. Only a keeper can delete it, and the server then overwrites its bytes. The
// subject ends with the name of the seal key that wrapped it, so the session's key can be wrapped with
// another seal key before the first copy is removed.
//
// A process without seal keys requests nothing. Others look up the key of a session once, keep it for some
// minutes, and forget it when it is gone. [Keys] is safe for concurrent use.
package sealing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/seal"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// ErrGone is returned for sealed content whose key is no longer in the cell: it was erased, or lost.
var ErrGone = errors.New("the session was erased: its key is destroyed")

// Stored is the wrapped key of a session.
type Stored struct {
	Wrapped []byte            `msgpack:"w"`
	Parent  content.SessionID `msgpack:"p,omitempty"` // the session whose content it has, because it works for it or continues it

	Session content.SessionID `msgpack:"-"`
	Wrapper string            `msgpack:"-"` // the name of the seal key
	seq     uint64
}

const (
	fresh     = 10 * time.Minute // how long a key is kept in memory
	maxKnown  = 1 << 12
	maxSealed = 1 << 16
)

// Keys has the keys of a cell's sessions, as far as its ring can open them.
type Keys struct {
	api   *api.Conn
	names layout.Names
	ring  seal.Ring

	mu    sync.Mutex
	known map[content.SessionID]known

	// sealed has the sessions whose keys were here. If a key is gone, nothing is sent to its session in the
	// clear.
	sealed map[content.SessionID]struct{}
}

// known is the key of a session. A nil key never expires: the session is not sealed.
type known struct {
	key   *seal.Key
	until time.Time
}

// New returns the keys of a cell.
func New(c *api.Conn, n layout.Names, ring seal.Ring) *Keys {
	return &Keys{api: c, names: n, ring: ring, known: make(map[content.SessionID]known), sealed: make(map[content.SessionID]struct{})}
}

// Ring returns the seal keys.
func (k *Keys) Ring() seal.Ring { return k.ring }

// Of returns the key of a session, or nil if it is not sealed. Without seal keys it returns nil. If the key
// was here before, Of returns the same errors as With.
func (k *Keys) Of(ctx context.Context, s content.SessionID) (*seal.Key, error) {
	if len(k.ring) == 0 {
		return nil, nil //nolint:nilnil // not sealed, as far as this process knows
	}
	k.mu.Lock()
	key, ok := k.get(s)
	_, sealed := k.sealed[s]
	k.mu.Unlock()
	if ok {
		return key, nil
	}
	key, err := k.load(ctx, s)
	if err == nil && key == nil && sealed {
		err = k.missing(ctx, s)
	}
	return key, err
}

// With returns the session's key with an ID, or nil without seal keys. Its errors say why the key is not
// available: seal.ErrOtherKey, ErrGone, or seal.ErrNotOpened for a session that is not sealed.
func (k *Keys) With(ctx context.Context, s content.SessionID, id seal.ID) (*seal.Key, error) {
	k.mu.Lock()
	key, ok := k.get(s)
	k.mu.Unlock()
	switch {
	case len(k.ring) == 0:
		return nil, nil //nolint:nilnil // the caller reports it
	case ok && key == nil:
		return nil, fmt.Errorf("%w: the session is not sealed", seal.ErrNotOpened)
	case ok && key.ID() == id:
		return key, nil
	}
	key, err := k.load(ctx, s)
	switch {
	case err != nil:
		return nil, err
	case key == nil:
		return nil, k.missing(ctx, s)
	case key.ID() != id:
		return nil, fmt.Errorf("%w: it is sealed with %s, but the key of the session is %s", seal.ErrOtherKey, id.Short(), key.ID().Short())
	}
	return key, nil
}

// Unsealed records that a session is not sealed, according to its driver.
func (k *Keys) Unsealed(s content.SessionID) {
	if len(k.ring) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	_, sealed := k.sealed[s]
	if _, ok := k.known[s]; !ok && !sealed {
		k.put(s, known{})
	}
}

// Forget drops the key of a session from memory.
func (k *Keys) Forget(s content.SessionID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, s)
}

// get returns what is known of a session. The caller holds the lock.
func (k *Keys) get(s content.SessionID) (*seal.Key, bool) {
	n, ok := k.known[s]
	if ok && n.key != nil && time.Now().After(n.until) {
		delete(k.known, s)
		return nil, false
	}
	return n.key, ok
}

// put stores what is known of a session. The caller holds the lock.
func (k *Keys) put(s content.SessionID, n known) {
	if len(k.known) >= maxKnown {
		clear(k.known) // everything can be loaded again
	}
	if k.known[s] = n; n.key == nil {
		return
	}
	if len(k.sealed) >= maxSealed {
		clear(k.sealed)
	}
	k.sealed[s] = struct{}{}
}

// load reads the key of a session. It returns nil if the ring wrapped none.
func (k *Keys) load(ctx context.Context, s content.SessionID) (*seal.Key, error) {
	for _, id := range k.ring.IDs() {
		at, err := k.read(ctx, k.names.Seal(s, id))
		if errors.Is(err, api.ErrNoMessage) {
			continue
		}
		var key *seal.Key
		if err == nil {
			key, err = k.ring.Unwrap(ctx, id, at.Wrapped, k.bound(s))
		}
		if err != nil {
			return nil, fmt.Errorf("key of session %s: %w", s, err)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.put(s, known{key, time.Now().Add(fresh)})
		return key, nil
	}
	return nil, nil //nolint:nilnil // Of documents it
}

// missing says why the ring has no key for a sealed session.
func (k *Keys) missing(ctx context.Context, s content.SessionID) error {
	there, err := k.Stored(ctx, s)
	switch {
	case err != nil:
		return err
	case len(there) == 0:
		return ErrGone
	}
	var ids []string
	for _, at := range there {
		ids = append(ids, at.Wrapper)
	}
	return fmt.Errorf("%w: need %s, have %s", seal.ErrOtherKey, strings.Join(ids, ", "), strings.Join(k.ring.IDs(), ", "))
}

func (k *Keys) bound(s content.SessionID) []byte {
	return []byte("turnlog-seal/v1\nkey\n" + k.names.NS + "\n" + string(s))
}

// read returns the stored key on a subject, or the last one that matches a wildcard.
func (k *Keys) read(ctx context.Context, subject string) (at Stored, err error) {
	m, err := k.api.Last(ctx, k.names.SealsStream(), subject)
	if err != nil {
		return at, k.explain(ctx, err)
	}
	return k.decode(m)
}

func (k *Keys) decode(m api.Message) (at Stored, err error) {
	if m.Spoofed {
		return at, fmt.Errorf("%w: %w", seal.ErrBadKey, api.ErrSpoofed)
	}
	if err := wire.Unmarshal(m.Data, wire.Command, &at); err != nil {
		return at, fmt.Errorf("%w: %w", seal.ErrBadKey, err)
	}
	at.Session, at.Wrapper, at.seq = k.names.SessionOf(m.Subject), k.names.UserOf(m.Subject), m.Seq
	return at, nil
}

func (k *Keys) explain(ctx context.Context, err error) error {
	if errors.Is(err, api.ErrNoMessage) {
		return err
	}
	return k.api.Explain(ctx, k.names.SealsStream(), err)
}

// Stored returns the wrapped keys of a session, one for each seal key that wrapped it. For
// layout.AllSessions it returns those of all sessions.
func (k *Keys) Stored(ctx context.Context, s content.SessionID) (all []Stored, err error) {
	for m, err := range k.api.AllFromLeader(ctx, k.names.SealsStream(), k.names.Seal(s, "*"), 0) {
		if err != nil {
			return nil, fmt.Errorf("keys of sealed sessions: %w", k.explain(ctx, err))
		}
		at, err := k.decode(m)
		if err != nil { // any user who may start sessions can write anything here
			at = Stored{Session: k.names.SessionOf(m.Subject), Wrapper: k.names.UserOf(m.Subject), seq: m.Seq}
		}
		all = append(all, at)
	}
	return all, nil
}

// Create creates the key of a new session, unless it has one.
func (k *Keys) Create(ctx context.Context, s, parent content.SessionID) error {
	key, err := k.load(ctx, s)
	if err != nil || key != nil {
		return err
	}
	return k.store(ctx, s, seal.New(), Stored{Parent: parent})
}

// store wraps a key with the first seal key of the ring.
func (k *Keys) store(ctx context.Context, s content.SessionID, key *seal.Key, at Stored) error {
	id, wrapped, err := k.ring.Wrap(ctx, key, k.bound(s))
	if err != nil {
		return fmt.Errorf("seal session %s: %w", s, err)
	}
	at.Wrapped = wrapped
	data, err := msgpack.Marshal(at)
	if err != nil {
		return fmt.Errorf("seal session %s: %w", s, err)
	}
	err = api.Patiently(ctx, func(ctx context.Context) error {
		_, err := k.api.Publish(ctx, &nats.Msg{Subject: k.names.Seal(s, id), Data: data})
		return err
	})
	if err != nil && !api.IsAlreadyThere(err) {
		return fmt.Errorf("seal session %s: %w", s, k.explain(ctx, err))
	}
	now, err := k.load(ctx, s) // another process may have been faster
	if err == nil && now == nil {
		err = ErrGone
	}
	return err
}

// Rewrap wraps a stored key with the first seal key of the ring, and then removes the copy that it
// replaces. It reports whether it had to.
func (k *Keys) Rewrap(ctx context.Context, at Stored) (bool, error) {
	ids := k.ring.IDs()
	if len(ids) == 0 || at.Wrapper == ids[0] {
		return false, nil
	}
	key, err := k.ring.Unwrap(ctx, at.Wrapper, at.Wrapped, k.bound(at.Session))
	if err == nil {
		err = k.store(ctx, at.Session, key, Stored{Parent: at.Parent})
	}
	if err == nil {
		var now Stored
		if now, err = k.read(ctx, k.names.Seal(at.Session, ids[0])); err == nil {
			var again *seal.Key
			if again, err = k.ring.Unwrap(ctx, ids[0], now.Wrapped, k.bound(at.Session)); err == nil && !again.Equal(key) {
				err = fmt.Errorf("%w: a different key is stored under %s", seal.ErrOtherKey, ids[0])
			}
		}
	}
	if err == nil {
		err = k.api.Erase(ctx, k.names.SealsStream(), at.seq)
	}
	if err != nil {
		return false, fmt.Errorf("wrap the key of session %s again: %w", at.Session, err)
	}
	return true, nil
}

// Destroy removes the wrapped keys of a session from the cell. The server overwrites their bytes.
func (k *Keys) Destroy(ctx context.Context, s content.SessionID) error {
	all, err := k.Stored(ctx, s)
	if err != nil {
		return fmt.Errorf("destroy the key of session %s: %w", s, k.explain(ctx, err))
	}
	return k.Erase(ctx, s, all)
}

// Erase removes wrapped keys of a session that Stored returned.
func (k *Keys) Erase(ctx context.Context, s content.SessionID, all []Stored) (err error) {
	k.Forget(s)
	for _, at := range all {
		if err == nil {
			err = k.api.Erase(ctx, k.names.SealsStream(), at.seq)
		}
	}
	if err != nil {
		return fmt.Errorf("destroy the key of session %s: %w", s, k.explain(ctx, err))
	}
	return nil
}

// Children returns the sessions that have content of a session because they worked for its calls, and the
// children of those sessions. A user who starts sessions can store any parent. Only the name of a sub-agent
// proves its parent, so a stored parent alone must not cause another user's session to be erased.
func Children(all []Stored, of content.SessionID) (out []content.SessionID) {
	for found := []content.SessionID{of}; len(found) > 0; {
		var next []content.SessionID
		for _, at := range all {
			if slices.Contains(found, at.Parent) && isNamedBy(at.Parent, at.Session) && !slices.Contains(out, at.Session) {
				out, next = append(out, at.Session), append(next, at.Session)
			}
		}
		found = next
	}
	return out
}

// isNamedBy reports whether a session is named like one that works for a call of parent.
func isNamedBy(parent, s content.SessionID) bool {
	place, ok := strings.CutPrefix(string(s), string(parent)+"-")
	if !ok {
		return false
	}
	_, _, _, err := content.ParsePlace(place)
	return err == nil
}
