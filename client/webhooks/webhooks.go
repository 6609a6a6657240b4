// Package webhooks tells receivers over HTTP what happens in the sessions of a deployment: needed approvals,
// finished turns, failed sessions, and dead letters. Messages follow Standard Webhooks.
//
// The one idea: journals are the queue. An endpoint has a position in the cell's journal. The position
// advances past a message once the message is acknowledged, is stored for another attempt, or could not be
// delivered for a day. So nothing is lost when a process is killed, nothing is buffered for a slow endpoint,
// and no endpoint delays another.
//
// Each message arrives at least once. Its ID follows from the journal, so receivers recognize duplicates.
// Messages may arrive in another order than their events; each has the number of its entry.
//
// Any number of processes may send for one cell. An endpoint's position is stored with a guard (package
// jetstream/webhooks), so only one process sends to an endpoint. If that process stops, another one takes
// over after ten seconds.
//
// To test against it, set Endpoint.Private to the addresses of a httptest.Server.
package webhooks

import (
	"context"
	"net/http"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/jetstream"
	store "github.com/turnlog/turnlog/jetstream/webhooks"
)

// Outcome is the outcome of an attempt or a message.
type Outcome string

// Outcomes of attempts and messages.
const (
	Delivered Outcome = "delivered" // the endpoint has the message
	Failed    Outcome = "failed"    // the attempt failed
	Dead      Outcome = "dead"      // the message is not sent any more unless someone retries it
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome { return []Outcome{Delivered, Failed, Dead} }

// Status is the state of an endpoint.
type Status struct {
	Endpoint string
	Sending  bool // this process sends to it
	Disabled bool // it wants no more messages, or the journal no longer has its position
	Waiting  int  // messages that are not acknowledged
}

// Config is what a sender needs besides its cell.
type Config struct {
	Endpoints []Endpoint

	Report    func(Status)                     // called every few seconds, by several goroutines; nil: no reports
	Attempted func(endpoint string, o Outcome) // called after each attempt, by several goroutines; nil: not called
}

// Sender sends to the endpoints of a cell.
type Sender struct {
	Config

	cell  *jetstream.Cell
	store *store.Store
	log   *zap.Logger
	id    string // of this process

	transport func(Endpoint) http.RoundTripper
}

// New returns a sender.
func New(cell *jetstream.Cell, cfg Config, log *zap.Logger) *Sender {
	return &Sender{
		Config: cfg, cell: cell, store: store.Of(cell), log: log, id: ulid.Make().String(),
		transport: func(e Endpoint) http.RoundTripper { return newTransport(e) },
	}
}

// Run sends until ctx ends or a permanent error occurs.
func (s *Sender) Run(ctx context.Context) error {
	group, running := errgroup.WithContext(ctx)
	for _, e := range s.Endpoints {
		c := s.deliverer(e)
		group.Go(func() error { return c.run(running) })
	}
	return group.Wait() //nolint:wrapcheck // of run
}

func (s *Sender) deliverer(e Endpoint) *deliverer {
	c := &deliverer{Endpoint: e, Sender: s, log: s.log.With(zap.String("endpoint", e.Name))}
	c.client = &http.Client{Transport: s.transport(e), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c.source = c.newSource()
	return c
}

func (c *deliverer) report(sending bool) {
	if c.Report != nil {
		c.Report(Status{Endpoint: c.Name, Sending: sending, Disabled: c.state.Disabled != "", Waiting: len(c.state.Waiting)})
	}
}

func (c *deliverer) attempted(o Outcome) {
	if c.Attempted != nil {
		c.Attempted(c.Name, o)
	}
}
