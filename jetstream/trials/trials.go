// Package trials keeps notes about sessions that nodes may not survive.
//
// A node writes a note before it does something for such a session, and removes it afterwards. A node that
// dies leaves its note, so the next one knows what the dead one was doing. After a few breakages in a row, no
// node drives the session until a person retries it.
package trials

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/bucket"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// Trials holds notes about sessions that nodes may not survive. A node that dies leaves its note, so
// the next one knows what the dead one was doing. It is safe for concurrent use.
type Trials struct {
	cell    *jetstream.Cell
	names   layout.Names
	notes   bucket.Bucket[Trial]
	retries bucket.Bucket[Retry] // by session and user
}

// retriedTTL is how long a retry waits for a node to record it.
const retriedTTL = 7 * 24 * time.Hour

// Trial is the note about one session.
type Trial struct {
	Session content.SessionID `msgpack:"-"`

	Node    string       `msgpack:"n,omitempty"` // the node that may not survive what it does for the session; "": none
	Process string       `msgpack:"p,omitempty"` // of the node
	Since   content.Time `msgpack:"s,omitempty"`
	Shared  bool         `msgpack:"c,omitempty"` // the node does the same for other sessions at the same time
	Broke   []Breakage   `msgpack:"b,omitempty"` // in a row, oldest first

	RetriedBy string `msgpack:"r,omitempty"` // who retried it, as a claim, until the journal records it
	Seq       uint64 `msgpack:"-"`           // of the note; 0: there is none
}

// Retry says that a user, whose name the server verified, retried a session that was set aside.
type Retry struct {
	By   string `msgpack:"b,omitempty"`
	User string `msgpack:"-"`
	Seq  uint64 `msgpack:"-"` // 0: there is none
}

// Breakage says that a session crashed its driver or its whole node.
type Breakage struct {
	Node       string       `msgpack:"n"`
	At         content.Time `msgpack:"a"`
	Error      string       `msgpack:"e,omitempty"` // "": the node ended
	Unreadable bool         `msgpack:"u,omitempty"` // the node could not read the session, and took no harm
	Shared     bool         `msgpack:"c,omitempty"` // another session may have broken the node
}

// How many times in a row a session may break nodes before it is set aside: maxBroken if nothing else can
// have caused the last breakage, and maxShared in any case.
const (
	maxBroken = 2
	maxShared = 4
)

// Aside reports whether the session is set aside, so that no node drives it until someone retries it.
func (t Trial) Aside() bool {
	n, shared := 0, false
	for _, b := range t.Broke {
		if !b.Unreadable {
			n, shared = n+1, b.Shared
		}
	}
	return n >= maxShared || n >= maxBroken && !shared
}

// ErrNotAside is returned by Retry for a session that is not set aside.
var ErrNotAside = errors.New("session is not set aside")

// Of returns the cell's notes about sessions that nodes may not survive.
func Of(cell *jetstream.Cell) *Trials {
	conn, names := api.New(cell.Conn()), layout.New(cell.Namespace())
	return &Trials{
		cell, names, bucket.OfValues[Trial](conn, "trial", names.Dead(), layout.TrialKeys, 1, 0),
		bucket.OfValues[Retry](conn, "retry", names.Dead(), layout.TrialKeys, 2, retriedTTL),
	}
}

// Get returns the note about a session. Without one, only its Session is set.
func (t *Trials) Get(ctx context.Context, s content.SessionID) (Trial, error) {
	it, _, err := t.notes.Get(ctx, string(s))
	it.Value.Session, it.Value.Seq = s, it.Seq
	return it.Value, err
}

// Put replaces the note about a session, and returns the number of the new one. It is not retried.
func (t *Trials) Put(ctx context.Context, note Trial) (uint64, error) {
	b := t.notes
	b.Once = true
	return b.Put(ctx, string(note.Session), note)
}

// Clear removes a note unless it was replaced. It is not retried.
func (t *Trials) Clear(ctx context.Context, s content.SessionID, note uint64) error {
	b := t.notes
	b.Once, b.TTL = true, layout.UnlistedTTL
	if err := b.Delete(ctx, string(s), note); !api.IsConflict(err) {
		return err
	}
	return nil
}

// Aside lists the sessions that are set aside, oldest first. Any replica may answer, so the latest may be
// missing.
func (t *Trials) Aside(ctx context.Context) (out []Trial, err error) {
	items, err := t.notes.Scan(ctx)
	for _, it := range items {
		if it.Value.Session = content.SessionID(it.Key); it.Value.Aside() {
			out = append(out, it.Value)
		}
	}
	return out, err
}

// Retried returns the last retry of a session by a named user that its journal does not record yet.
func (t *Trials) Retried(ctx context.Context, s content.SessionID) (last Retry, err error) {
	keys, err := t.retries.Keys(ctx, string(s)+".*")
	for _, key := range keys {
		it, ok, err := t.retries.Look(ctx, key)
		if err != nil {
			return Retry{}, err
		}
		if ok && it.Err == nil && it.Seq > last.Seq {
			last = it.Value
			last.User, last.Seq = t.names.UserOf(key), it.Seq
		}
	}
	return last, err
}

// Recorded removes a retry that the session's journal records, and earlier ones, which it settles.
func (t *Trials) Recorded(ctx context.Context, s content.SessionID, r Retry) error {
	b := t.retries
	b.Once, b.TTL = true, layout.UnlistedTTL
	keys, err := b.Keys(ctx, string(s)+".*")
	for _, key := range keys {
		it, ok, err := b.Look(ctx, key)
		if err == nil && ok && it.Seq <= r.Seq {
			err = b.Delete(ctx, key, it.Seq)
		}
		if err != nil && !api.IsConflict(err) {
			return err
		}
	}
	return err
}

// Retry lets nodes drive a session again that is set aside, and wakes it. The session's journal records who
// did it: the connection's user if it has a name, or else by, as a claim.
func (t *Trials) Retry(ctx context.Context, s content.SessionID, by string) error {
	all, err := t.Aside(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(n Trial) bool { return n.Session == s }) {
		return fmt.Errorf("retry %s: %w", s, ErrNotAside)
	}
	if user := t.cell.User(); user != "" {
		_, err = t.retries.Put(ctx, string(s)+"."+user, Retry{By: by})
	} else {
		_, err = t.notes.Put(ctx, string(s), Trial{RetriedBy: cmp.Or(by, "unknown")})
	}
	if err != nil {
		return err
	}
	return t.cell.Runs().Wake(ctx, s)
}
