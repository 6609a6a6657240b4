package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/events/seal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/internal/tracing"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/listing"
	"github.com/turnlog/turnlog/jetstream/trials"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

// Client talks to one cell. It is safe for concurrent use. The caller of Open closes the connection.
type Client struct {
	cell    *jetstream.Cell
	journal *jetstream.Journal
	inbox   *jetstream.Inbox
	runs    *jetstream.Runs
	log     *zap.Logger
	name    string

	approver  extension.Approver
	observers []extension.Observer
	items     []extension.TranscriptObserver
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

// WithName sets the client's name in journals. The name is a claim, recorded next to the one that the server
// verifies. The default is the verified name of the connection's user, if there is one.
func WithName(name string) Option {
	return func(c *Client) error {
		c.name = name
		return nil
	}
}

// WithKey makes the client sign what it sends, as nodes that use a directory of keys require. Journals then
// record the name of the key's owner. A nil key signs nothing.
func WithKey(key *keys.Signer) Option {
	return func(c *Client) error {
		c.over(c.cell.Signing(key))
		return nil
	}
}

// WithSealKeys lets the client read and write sealed sessions. Without the keys, reading a sealed session
// returns an *events.SealedError.
func WithSealKeys(ring seal.Ring) Option {
	return func(c *Client) error {
		c.over(c.cell.Sealing(ring))
		return nil
	}
}

// over makes the client use another view of its cell.
func (c *Client) over(cell *jetstream.Cell) {
	c.cell, c.journal, c.inbox, c.runs = cell, cell.Journal(), cell.Inbox(), cell.Runs()
}

// WithApprover sets what the facades of this client's sessions ask for approvals. Without it they stop with
// *session.ApprovalPendingError.
func WithApprover(a extension.Approver) Option {
	return func(c *Client) error {
		c.approver = a
		return nil
	}
}

// WithObservers adds observers of this client's sessions, from the moment they are started or attached here.
// They see entries as they arrive, and live events between them.
func WithObservers(all ...extension.Observer) Option {
	return func(c *Client) error {
		c.observers = append(c.observers, all...)
		return nil
	}
}

// WithTranscriptObservers adds observers that see each item appended to the transcripts of this client's
// sessions after they are started or attached here.
func WithTranscriptObservers(all ...extension.TranscriptObserver) Option {
	return func(c *Client) error {
		c.items = append(c.items, all...)
		return nil
	}
}

// Open returns a client of a namespace ("": turnlog) over a connection.
func Open(nc *nats.Conn, namespace string, opts ...Option) (*Client, error) {
	cell, err := jetstream.Open(nc, namespace)
	if err != nil {
		return nil, fmt.Errorf("open client: %w", err)
	}
	c := &Client{log: zap.NewNop(), name: cmp.Or(cell.User(), "client")}
	c.over(cell)
	for _, o := range opts {
		if err := o(c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Name returns the client's name in journals: that of WithName, or of the connection's user.
func (c *Client) Name() string { return c.name }

// Named returns a client with another name that uses the same connection.
func (c *Client) Named(name string) *Client {
	named := *c
	named.name = name
	return &named
}

// Send puts a command into a session's inbox and wakes its driver. It does not wait for the outcome. The id
// identifies the command permanently: sending it again under the same id has no further effect.
func (c *Client) Send(ctx context.Context, s content.SessionID, id string, cmd commands.Command) error {
	_, err := c.send(ctx, s, id, cmd)
	return err
}

// send returns the command's sequence on its lane.
func (c *Client) send(ctx context.Context, s content.SessionID, id string, cmd commands.Command) (uint64, error) {
	if err := c.checkFiles(ctx, s, cmd); err != nil {
		return 0, fmt.Errorf("send %s to %s: %w", commands.NameOf(cmd), s, err)
	}
	env := commands.Envelope{ID: id, Session: s, By: c.name, At: content.TimeOf(time.Now()), TraceParent: tracing.Parent(ctx), Baggage: tracing.Baggage(ctx), Command: cmd}
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

// Lengths returns the number of entries of each session, including deleted ones. It reads an index, so its
// cost depends only on the number of sessions.
func (c *Client) Lengths(ctx context.Context) (map[content.SessionID]uint64, error) {
	all, err := c.journal.Lengths(ctx)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return all, nil
}

// Pages returns the pages that the cell keeps for lists of its sessions.
func (c *Client) Pages() listing.Pages { return listing.Of(c.cell) }

// Asking lists the sessions with undecided approvals, and possibly some that had one a moment ago: their
// journals are the authority. Sessions from a release without this list appear once they have been woken.
func (c *Client) Asking(ctx context.Context) ([]content.SessionID, error) {
	return c.cell.Approvals().Sessions(ctx)
}

// Dead lists the sessions with dead letters, which are calls whose workers were lost, and
// possibly some that had one a moment ago. The same caveats hold as for Asking.
func (c *Client) Dead(ctx context.Context) ([]content.SessionID, error) {
	return c.cell.DeadLetters().Sessions(ctx)
}

// SetAside lists the sessions that no node drives because they crashed nodes, oldest first.
func (c *Client) SetAside(ctx context.Context) ([]trials.Trial, error) {
	return trials.Of(c.cell).Aside(ctx)
}

// RetrySession lets nodes drive a session again that was set aside. It needs the permissions of an approver.
func (c *Client) RetrySession(ctx context.Context, s content.SessionID) error {
	return forbidden(trials.Of(c.cell).Retry(ctx, s, c.name))
}

// Read returns a session as its journal has it now. It returns ErrNotFound for a session
// without a journal.
func (c *Client) Read(ctx context.Context, s content.SessionID) (*loop.State, journal.Head, error) {
	r, err := c.read(ctx, s)
	return r.State, r.Head, err
}

func (c *Client) read(ctx context.Context, s content.SessionID) (engine.Replica, error) {
	r, err := engine.Reader{Journal: c.journal, Snapshots: c.cell.Snapshots(), Logger: c.log}.Read(ctx, s)
	if err == nil && r.Head.Seq == 0 {
		err = session.ErrNotFound
	}
	if err != nil {
		return r, fmt.Errorf("read %s: %w", s, err)
	}
	return r, nil
}

// Options say how a new session starts.
type Options struct {
	ID           content.SessionID // "": a new one
	Config       events.Config     // Model or Agent is required; Catalog is filled in by the driver
	SystemPrompt string            // "": none
	Transcript   []content.Item    // given to the model at the start, without beginning a turn
	Input        []content.Item    // of its first turn, which begins at once
	Stepped      bool              // a turn pauses after each round until Next is called
	Metadata     content.Metadata
	Parent       content.SessionID // the session that this one works for; "": none

	// From makes the session a fork: it continues another session after one of its entries (see session.Fork).
	// Then Config may be empty, and Transcript and SystemPrompt must be. A sequence of 0 means the newest
	// entry.
	From events.EntryRef

	Command string // ID of the command that opens the session; "": a new one

	// Sealed encrypts all content of the session under a key of its own, so that it can be erased. It needs
	// WithSealKeys. A session that works for a sealed one is always sealed.
	Sealed bool
}

// Start opens a new session and attaches to it. It returns a *session.InvalidStateError with reason
// session_exists if the ID is taken, and session.ErrNoAnswer if no driver took the session before ctx ended.
func (c *Client) Start(ctx context.Context, o Options) (*session.Session, error) {
	if o.ID == "" {
		o.ID = content.SessionID(ulid.Make().String())
	}
	if _, err := content.ParseSessionID(string(o.ID)); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	if o.Config.Model == "" && o.Config.Agent == nil && o.From.Session == "" {
		return nil, errors.New("start: Config.Model or Config.Agent is required")
	}
	open := commands.OpenSession{
		Config: o.Config, Transcript: o.Transcript, Input: o.Input, Stepped: o.Stepped, Metadata: o.Metadata, Parent: o.Parent,
	}
	if o.SystemPrompt != "" {
		open.Transcript = append([]content.Item{content.SystemText(o.SystemPrompt)}, o.Transcript...)
	}
	if o.From.Session != "" {
		if len(open.Transcript) > 0 {
			return nil, errors.New("start: a fork has the transcript of its origin: leave out Transcript and SystemPrompt")
		}
		from, origin, err := c.origin(ctx, o.From)
		if err != nil {
			return nil, fmt.Errorf("start: %w", err)
		}
		open.From, open.Input = from.String(), slices.Concat(session.ForkInput(origin), o.Input)
	}
	if err := c.seal(ctx, o); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	s, err := c.attach(ctx, engine.Replica{State: loop.New(o.ID)})
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	if err := s.AskAs(ctx, cmp.Or(o.Command, ulid.Make().String()), open); err != nil {
		_ = s.Close(ctx)
		return nil, fmt.Errorf("start %s: %w", o.ID, err)
	}
	return s, nil
}

// Attach joins an existing session. It returns a *session.DeletedError if the session was deleted. Next does
// not return turns that ended before, but it does return an open approval or yield.
func (c *Client) Attach(ctx context.Context, id content.SessionID) (*session.Session, error) {
	r, err := c.read(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.attachRead(ctx, r)
}

func (c *Client) attachRead(ctx context.Context, r engine.Replica) (*session.Session, error) {
	switch id := r.State.Session; {
	case r.State.Deleted != nil:
		return nil, &session.DeletedError{Session: id, Deletion: *r.State.Deleted}
	case !r.State.Opened: // a driver has claimed it, and nothing more
		return nil, fmt.Errorf("attach %s: %w", id, session.ErrNotFound)
	}
	return c.attach(ctx, r)
}

// AttachTo is Attach for an opened session that Read just returned. It does not read the session again. It
// takes ownership of state.
func (c *Client) AttachTo(ctx context.Context, state *loop.State, head journal.Head) (*session.Session, error) {
	return c.attach(ctx, engine.Replica{State: state, Head: head})
}
