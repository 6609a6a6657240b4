// Package webhooks stores the delivery positions of a cell's webhooks, for all processes that send them.
//
// The one idea: what an endpoint still has to receive is one value, replaced with a guarded write. It has
// the position up to which the journals were read, and the earlier messages that are not acknowledged. So
// only one of several processes sends to an endpoint, and the next one to do so misses nothing. A message
// refers to an event; its content is read from the journal.
//
// Messages that could not be delivered are separate values, until a person retries or drops them.
package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/turnlog/turnlog/content"
	turnlog "github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/bucket"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

var (
	// ErrConflict is returned by Save if another process has saved in the meantime. Load again.
	ErrConflict = errors.New("another process sends to this endpoint")

	// ErrNotFound is returned for an endpoint that no process has sent to, and for a message that is not
	// among the undeliverable ones. Endpoints and Dead list them.
	ErrNotFound = errors.New("not found")
)

// Message is one event for one endpoint.
type Message struct {
	ID       string            `json:"id"` // the same for each attempt
	Type     string            `json:"type"`
	Session  content.SessionID `json:"session"`
	Position uint64            `json:"position"` // of the event's entry, in the cell's journal
	Event    int               `json:"event"`    // the event's index in its entry

	Attempts int          `json:"attempts,omitempty"` // failed attempts
	First    content.Time `json:"first,omitzero"`     // when it was first due
	Next     content.Time `json:"next,omitzero"`      // when it is due next; zero: now
	Failure  string       `json:"failure,omitempty"`  // why the last attempt failed
}

// State is how far messages to an endpoint are delivered.
type State struct {
	At       turnlog.Cursor `json:"at"`                 // entries up to here were read
	Waiting  []Message      `json:"waiting,omitempty"`  // messages from these entries that are not acknowledged
	Disabled string         `json:"disabled,omitempty"` // why nothing is sent; "": the endpoint is enabled
	Sender   string         `json:"sender,omitempty"`   // the process that sends; "": any may
}

// Store keeps the endpoints of a cell. It is safe for concurrent use.
type Store struct {
	cell        *turnlog.Cell
	states      bucket.Bucket[State]
	dead, again bucket.Bucket[Message]
}

// Of returns the webhooks of a cell.
func Of(c *turnlog.Cell) *Store {
	conn, in := api.New(c.Conn()), layout.New(c.Namespace()).Webhooks()
	return &Store{
		cell:   c,
		states: values[State](conn, in, "endpoint", layout.EndpointKeys, 1),
		dead:   values[Message](conn, in, "message", layout.FailedKeys, 2),
		again:  values[Message](conn, in, "message", layout.AgainKeys, 2),
	}
}

func values[T any](conn *api.Conn, in layout.Bucket, what, prefix string, tokens int) bucket.Bucket[T] {
	return bucket.Bucket[T]{
		API: conn, What: what, Stream: in.Stream(), Prefix: in.Key(prefix), Tokens: tokens,
		Encode: func(v *T) ([]byte, error) { return json.Marshal(v) },
		Decode: func(data []byte) (v T, err error) { return v, json.Unmarshal(data, &v) },
	}
}

// Endpoints lists the endpoints that were sent to, sorted.
func (s *Store) Endpoints(ctx context.Context) ([]string, error) { return s.states.Keys(ctx, "*") }

// Load returns the state of an endpoint and its number, which guards the next Save. It returns ErrNotFound
// and the number 0 if no process has sent to the endpoint.
func (s *Store) Load(ctx context.Context, endpoint string) (State, uint64, error) {
	it, ok, err := s.states.Get(ctx, endpoint)
	if err == nil && !ok {
		err = fmt.Errorf("endpoint %q: %w", endpoint, ErrNotFound)
	}
	return it.Value, it.Seq, err
}

// Save replaces the state with the number last and returns the new number. It returns ErrConflict if that
// state was already replaced, perhaps by an earlier attempt of this Save whose answer was lost.
func (s *Store) Save(ctx context.Context, endpoint string, state State, last uint64) (uint64, error) {
	number, err := s.states.Put(ctx, endpoint, state, last)
	if api.IsConflict(err) {
		err = fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return number, err
}

// Enable resumes sending to a disabled endpoint from where it stopped. If skip is true, it skips the
// messages that the endpoint missed.
func (s *Store) Enable(ctx context.Context, endpoint string, skip bool) error {
	state, number, err := s.Load(ctx, endpoint)
	if err != nil || state.Disabled == "" {
		return err
	}
	if skip {
		state.Waiting = nil
		if state.At, err = s.cell.Journal().End(ctx, turnlog.AllSessions); err != nil {
			return err
		}
	}
	state.Disabled, state.Sender = "", ""
	_, err = s.Save(ctx, endpoint, state, number)
	return err
}

// Dead returns the messages to an endpoint that could not be delivered, oldest first. Any replica may
// answer, so the latest may be missing.
func (s *Store) Dead(ctx context.Context, endpoint string) (out []Message, err error) {
	items, err := s.dead.Scan(ctx)
	for _, it := range items {
		if strings.HasPrefix(it.Key, endpoint+".") {
			out = append(out, it.Value)
		}
	}
	return out, err
}

// Bury adds a message to those that could not be delivered.
func (s *Store) Bury(ctx context.Context, endpoint string, m Message) error {
	_, err := s.dead.Put(ctx, endpoint+"."+m.ID, m)
	return err
}

// Retry makes a process send an undeliverable message again.
func (s *Store) Retry(ctx context.Context, endpoint, id string) error {
	key := endpoint + "." + id
	it, ok, err := s.dead.Get(ctx, key)
	if err == nil && !ok {
		err = fmt.Errorf("message %s to endpoint %q: %w", id, endpoint, ErrNotFound)
	}
	if err == nil {
		m := it.Value
		m.Attempts, m.First, m.Next = 0, 0, 0
		_, err = s.again.Put(ctx, key, m)
	}
	if err != nil {
		return err
	}
	return remove(ctx, s.dead, key) // last, so that the message is always in at least one list
}

// Drop removes a message that could not be delivered.
func (s *Store) Drop(ctx context.Context, endpoint, id string) error {
	key := endpoint + "." + id
	_, ok, err := s.dead.Look(ctx, key)
	if err == nil && !ok {
		err = fmt.Errorf("message %s to endpoint %q: %w", id, endpoint, ErrNotFound)
	}
	if err != nil {
		return err
	}
	return remove(ctx, s.dead, key)
}

// Again returns up to most messages to an endpoint that are to be sent again.
func (s *Store) Again(ctx context.Context, endpoint string, most int) (out []Message, err error) {
	keys, err := s.again.Keys(ctx, endpoint+".*")
	for _, key := range keys {
		if len(out) >= most {
			break
		}
		it, ok, err := s.again.Get(ctx, key)
		if err != nil {
			return out, err
		}
		if ok {
			out = append(out, it.Value)
		}
	}
	return out, err
}

// Settled removes a message that was sent again, or failed again.
func (s *Store) Settled(ctx context.Context, endpoint, id string) error {
	return remove(ctx, s.again, endpoint+"."+id)
}

func remove(ctx context.Context, from bucket.Bucket[Message], key string) error {
	from.TTL = layout.UnlistedTTL
	return from.Delete(ctx, key)
}
