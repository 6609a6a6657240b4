package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/jetstream"
	store "github.com/turnlog/turnlog/jetstream/webhooks"
)

const (
	saveEvery = 3 * time.Second  // how often the state is stored, so that others see that this process sends
	takeover  = 10 * time.Second // pause after which another process may take over
)

// deliverer delivers the messages of one endpoint. The goroutine that calls run owns it.
type deliverer struct {
	Endpoint

	*Sender
	log    *zap.Logger
	client *http.Client
	source *source

	state   store.State
	number  uint64 // of the stored state
	waiting []*delivery
	sending int
	quiet   time.Time // no attempt starts before this, because the endpoint asked for a pause
}

// run delivers until ctx ends or a permanent error occurs.
func (c *deliverer) run(ctx context.Context) error {
	defer c.client.CloseIdleConnections()
	for ctx.Err() == nil {
		err := c.acquire(ctx)
		if err == nil {
			err = errors.Join(c.deliver(ctx), c.release(ctx))
		}
		switch {
		case ctx.Err() != nil:
		case permanent(err):
			return fmt.Errorf("endpoint %s: %w", c.Name, err)
		case errors.Is(err, store.ErrConflict):
			c.log.Warn("another process sends to the endpoint")
		case err != nil:
			c.log.Warn("sending was interrupted", zap.Error(err))
			pause.For(ctx, saveEvery)
		}
	}
	return nil
}

// permanent reports whether an error will not go away by itself.
func permanent(err error) bool {
	_, denied := jetstream.Denied(err)
	return denied || errors.Is(err, jetstream.ErrNotProvisioned) || errors.Is(err, jetstream.ErrNoJetStream)
}

// acquire waits until no other process sends to the endpoint, and claims it. The first claim starts at the
// end of the journal.
func (c *deliverer) acquire(ctx context.Context) error {
	var seen uint64
	var since time.Time
	for {
		state, number, err := c.store.Load(ctx, c.Name)
		if errors.Is(err, store.ErrNotFound) {
			state.At, err = c.cell.Journal().End(ctx, jetstream.AllSessions)
		}
		if err != nil {
			return err
		}
		if since.IsZero() || number != seen {
			seen, since = number, time.Now()
		}
		c.state, c.number = state, number
		c.report(false)
		abandoned := state.Sender == "" || state.Sender == c.id || time.Since(since) >= takeover
		if abandoned && state.Disabled == "" {
			c.state.Sender = c.id
			if err := c.save(ctx); !errors.Is(err, store.ErrConflict) {
				return err
			}
		}
		if !pause.For(ctx, time.Second) {
			return context.Cause(ctx)
		}
	}
}

// release lets another process continue at once.
func (c *deliverer) release(ctx context.Context) error {
	c.report(false)
	if c.state.Sender == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveEvery)
	defer cancel()
	c.state.Sender = ""
	return c.save(ctx)
}

// save stores the current state.
func (c *deliverer) save(ctx context.Context) error {
	number, err := c.store.Save(ctx, c.Name, c.state, c.number)
	if errors.Is(err, store.ErrConflict) { // unless an earlier attempt succeeded, and its answer was lost
		now, there, loadErr := c.store.Load(ctx, c.Name)
		if loadErr == nil && now.Sender == c.id && c.state.Sender != "" && there > c.number {
			number, err = c.store.Save(ctx, c.Name, c.state, there)
		}
	}
	if err == nil {
		c.number = number
	}
	return err
}
