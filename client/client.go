package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
)

// ErrNotFound is returned for a session that has no journal; start it first.
var ErrNotFound = journal.ErrNotFound

// ErrNoAnswer is returned when nobody took an ask in hand before the context
// ended. It stays in the inbox and may still be handled: look into the journal
// before asking again. Is a driver node running?
var ErrNoAnswer = errors.New("no driver answered")

// ReasonPassedOver is the Reason of a RefusedError when nobody heard why: the
// session has handled the ask, and nothing came of it.
const ReasonPassedOver = "passed_over"

// DeletedError is returned for a session that was deleted. Its id is not used again.
type DeletedError struct {
	Session content.SessionID
	events.Deletion
}

// Error says when it was deleted, by whom and why.
func (e *DeletedError) Error() string { return fmt.Sprintf("session %s %s", e.Session, e.Deletion) }

// RefusedError is returned for an ask that the session turned down.
type RefusedError struct {
	Reason string // a stable code, for example busy, session_exists or ReasonPassedOver
	Detail string
}

// Error renders reason and detail.
func (e *RefusedError) Error() string {
	if e.Detail == "" {
		return "refused: " + e.Reason
	}
	return "refused: " + e.Reason + ": " + e.Detail
}

// Client talks to one cell. It is safe for concurrent use; the connection stays
// its opener's to close.
type Client struct {
	nc      *nats.Conn
	cell    *jetstream.Cell
	journal *jetstream.Journal
	inbox   *jetstream.Inbox
	runs    *jetstream.Runs
	log     *zap.Logger
	name    string
}

// Option changes how a client works.
type Option func(*Client) error

// WithLogger makes the client log; it is silent otherwise.
func WithLogger(log *zap.Logger) Option {
	return func(c *Client) error {
		if log == nil {
			return errors.New("client: the logger is nil")
		}
		c.log = log
		return nil
	}
}

// WithName names the client in the records of what it decides.
func WithName(name string) Option {
	return func(c *Client) error {
		c.name = name
		return nil
	}
}

// Open returns a client of the namespace ("": turnlog) over a connection.
func Open(nc *nats.Conn, namespace string, opts ...Option) (*Client, error) {
	cell, err := jetstream.Open(nc, namespace)
	if err != nil {
		return nil, fmt.Errorf("open client: %w", err)
	}
	c := &Client{
		nc: nc, cell: cell, journal: cell.Journal(), inbox: cell.Inbox(), runs: cell.Runs(), log: zap.NewNop(), name: "client",
	}
	for _, o := range opts {
		if err := o(c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Send puts an ask into a session's inbox and wakes whoever drives it. It does not
// wait for what becomes of it. The id names the ask for all time: sending it again
// under the same id does nothing twice.
func (c *Client) Send(ctx context.Context, s content.SessionID, id string, cmd commands.Command) error {
	_, err := c.send(ctx, s, id, cmd)
	return err
}

// send returns the ask's sequence on its lane.
func (c *Client) send(ctx context.Context, s content.SessionID, id string, cmd commands.Command) (uint64, error) {
	env := commands.Envelope{ID: id, Session: s, By: c.name, At: content.TimeOf(time.Now()), Command: cmd}
	seq, err := c.inbox.Send(ctx, env)
	if err != nil {
		return 0, fmt.Errorf("send %s to %s: %w", commands.NameOf(cmd), s, forbidden(err))
	}
	c.runs.WakeSoon(s)
	return seq, nil
}

// Sessions lists the cell's sessions.
func (c *Client) Sessions(ctx context.Context) ([]content.SessionID, error) {
	ids, err := c.journal.Sessions(ctx)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return ids, nil
}

// Asking lists the sessions that have approvals which nobody has decided, and maybe
// some that had one a moment ago: their journals say. It does not know what a release
// without this list left behind, before such a session has been woken.
func (c *Client) Asking(ctx context.Context) ([]content.SessionID, error) {
	return c.cell.Approvals().Sessions(ctx)
}

// Dead lists the sessions that have dead letters, calls whose workers were lost, and
// maybe some that had one a moment ago: their journals say. It does not know what a
// release without this list left behind, before such a session has been woken.
func (c *Client) Dead(ctx context.Context) ([]content.SessionID, error) {
	return c.cell.DeadLetters().Sessions(ctx)
}

// Read folds a session's journal as it is now. It returns ErrNotFound for a
// session without one.
func (c *Client) Read(ctx context.Context, s content.SessionID) (*loop.State, journal.Head, error) {
	state, head, err := c.fold(ctx, s)
	if err == nil && head.Seq == 0 {
		return nil, head, fmt.Errorf("read %s: %w", s, ErrNotFound)
	}
	return state, head, err
}

func (c *Client) fold(ctx context.Context, s content.SessionID) (*loop.State, journal.Head, error) {
	state, head := loop.New(s), journal.Head{}
	for rec, err := range c.journal.Read(ctx, s, 0) {
		if err != nil {
			return nil, head, err // it names the session already
		}
		if rec.Err != nil {
			return nil, head, fmt.Errorf("read %s/%d: %w", s, rec.Seq, rec.Err)
		}
		state.Fold(rec.Entry)
		head = rec.Head
	}
	return state, head, nil
}

// Options say how a new session starts.
type Options struct {
	ID           content.SessionID // "": a new one
	Config       events.Config     // Model or Agent is required; Catalog is filled in by the driver
	SystemPrompt string            // "": none
	Transcript   []content.Item    // passive starting state
	Input        []content.Item    // of its first turn, which begins at once
	Stepped      bool              // a turn pauses after each round until Next goes on
	Metadata     content.Metadata
	Parent       content.SessionID // "": none; the session that this one works for
}

// Start opens a new session and attaches to it. It returns a *RefusedError with
// reason session_exists if the id is taken, and ErrNoAnswer if no driver took it
// in hand before ctx ended.
func (c *Client) Start(ctx context.Context, o Options) (*Session, error) {
	if o.ID == "" {
		o.ID = content.SessionID(ulid.Make().String())
	}
	if _, err := content.ParseSessionID(string(o.ID)); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	if o.Config.Model == "" && o.Config.Agent == nil {
		return nil, errors.New("start: Config.Model or Config.Agent is required")
	}
	open := commands.OpenSession{
		Config: o.Config, Transcript: o.Transcript, Input: o.Input, Stepped: o.Stepped, Metadata: o.Metadata, Parent: o.Parent,
	}
	if o.SystemPrompt != "" {
		open.Transcript = append([]content.Item{content.SystemText(o.SystemPrompt)}, o.Transcript...)
	}
	s, err := c.attach(ctx, loop.New(o.ID), journal.Head{})
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	if err := s.Ask(ctx, open); err != nil {
		s.Close()
		return nil, fmt.Errorf("start %s: %w", o.ID, err)
	}
	return s, nil
}

// Attach joins a session that exists, and was not deleted: *DeletedError. Turns that ended before are not surfaced
// again; an open approval or yield is.
func (c *Client) Attach(ctx context.Context, id content.SessionID) (*Session, error) {
	state, head, err := c.Read(ctx, id)
	if err != nil {
		return nil, err
	}
	if state.Deleted != nil {
		return nil, &DeletedError{Session: id, Deletion: *state.Deleted}
	}
	return c.attach(ctx, state, head)
}
