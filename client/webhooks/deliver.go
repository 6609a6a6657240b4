package webhooks

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/logfield"
	"github.com/turnlog/turnlog/jetstream"
	store "github.com/turnlog/turnlog/jetstream/webhooks"
)

const (
	window   = 64 // waiting messages of an endpoint; at this many its journal is not read further
	requests = 8  // concurrent requests to an endpoint

	firstDelay = 2 * time.Second // before the second attempt; doubled after each failure
	maxDelay   = 5 * time.Minute
	giveUp     = 24 * time.Hour // after the first attempt
)

// delivery is a message that is not acknowledged yet.
type delivery struct {
	store.Message

	body    []byte // nil: not read yet
	again   bool   // sent again on request, so it is not part of the state
	sending bool
}

// result is the outcome of an attempt.
type result struct {
	*delivery
	answer

	err error // the event could not be read
}

// deliver sends messages until ctx ends, the endpoint is disabled, or another process sends to it.
func (c *deliverer) deliver(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	c.waiting, c.sending, c.quiet = nil, 0, time.Time{}
	for _, m := range c.state.Waiting {
		c.waiting = append(c.waiting, &delivery{Message: m})
	}
	c.log.Info("endpoint followed", zap.Uint64("position", c.state.At.Position), zap.Int("waiting", len(c.waiting)))
	c.report(true)
	records, ended, results := make(chan journal.Record), make(chan error, 1), make(chan result)
	at := c.state.At
	running.Go(func() { ended <- c.follow(ctx, at, records) })
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next := c.start(ctx, &running, results)
		timer.Reset(time.Until(next))
		from := records
		if len(c.waiting) >= window {
			from = nil
		}
		var err error
		select {
		case rec := <-from:
			err = c.take(ctx, rec)
		case r := <-results:
			err = c.settle(ctx, r)
		case <-timer.C:
		case <-tick.C:
			if err = c.save(ctx); err == nil {
				err = c.resend(ctx)
			}
			c.report(true)
		case err := <-ended:
			if !errors.Is(err, jetstream.ErrCursor) {
				return err
			}
			c.disable(err.Error())
		case <-ctx.Done():
			return nil
		}
		if err != nil || c.state.Disabled != "" {
			return err
		}
	}
}

// follow passes on the entries of all sessions.
func (c *deliverer) follow(ctx context.Context, from jetstream.Cursor, out chan<- journal.Record) error {
	for rec, err := range c.cell.Journal().Observe(ctx, jetstream.AllSessions, from) {
		if err != nil {
			return err
		}
		select {
		case out <- rec:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// take adds the messages about an entry.
func (c *deliverer) take(ctx context.Context, rec journal.Record) error {
	var all []event
	var err error
	if !rec.Moved && !errors.Is(rec.Err, journal.ErrArriving) { // a moved session's messages were sent where it was recorded
		all, err = c.source.events(ctx, rec)
	}
	switch {
	case errors.Is(err, journal.ErrDamaged), errors.Is(err, events.ErrUnknownKind):
		c.log.Error("entry not sent", logfield.Session(rec.Entry.Session), logfield.Seq(rec.Seq), zap.Error(err))
	case err != nil:
		return err
	}
	for _, ev := range all {
		if !c.wants(ev.Payload) {
			continue
		}
		body, err := ev.encode()
		if err != nil {
			return err
		}
		c.waiting = append(c.waiting, &delivery{body: body, Message: store.Message{
			ID: idOf(rec, ev.index), Type: string(ev.Type), Session: rec.Entry.Session, Position: rec.Guard, Event: ev.index, First: content.TimeOf(time.Now()),
		}})
	}
	c.state.At = jetstream.CursorAt(rec)
	c.keep()
	return nil
}

// keep puts the waiting messages into the state.
func (c *deliverer) keep() {
	c.state.Waiting = nil
	for _, d := range c.waiting {
		if !d.again {
			c.state.Waiting = append(c.state.Waiting, d.Message)
		}
	}
}

// resend adds messages that a user wants sent again.
func (c *deliverer) resend(ctx context.Context) error {
	more, err := c.store.Again(ctx, c.Name, window)
	for _, m := range more {
		known := slices.ContainsFunc(c.waiting, func(d *delivery) bool { return d.ID == m.ID })
		if !known && len(c.waiting) < window {
			m.First = content.TimeOf(time.Now())
			c.waiting = append(c.waiting, &delivery{Message: m, again: true})
		}
	}
	return err
}

// start starts the attempts that are due, and returns when to look again.
func (c *deliverer) start(ctx context.Context, running *sync.WaitGroup, results chan<- result) (next time.Time) {
	now := time.Now()
	next = now.Add(time.Hour)
	for _, d := range c.waiting {
		at := d.Next.Std()
		if at.Before(c.quiet) {
			at = c.quiet
		}
		switch {
		case d.sending || c.sending >= requests:
		case at.After(now):
			next = earlier(next, at)
		default:
			d.sending = true
			c.sending++
			running.Go(func() {
				r := c.attempt(ctx, d)
				select {
				case results <- r:
				case <-ctx.Done():
				}
			})
		}
	}
	return next
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// attempt posts a message. It reads the message first if necessary.
func (c *deliverer) attempt(ctx context.Context, d *delivery) result {
	if d.body == nil {
		body, err := c.newSource().body(ctx, d.Message)
		if err != nil {
			return result{delivery: d, err: err, answer: answer{failure: err.Error()}}
		}
		d.body = body
	}
	return result{delivery: d, answer: c.post(ctx, d.ID, d.body)}
}

// settle handles the outcome of an attempt.
func (c *deliverer) settle(ctx context.Context, r result) error {
	d, now := r.delivery, time.Now()
	d.sending = false
	c.sending--
	switch {
	case errors.Is(r.err, errGone):
		c.log.Warn("message dropped", zap.String("message", d.ID), logfield.Session(d.Session), zap.Error(r.err))
		return c.done(ctx, d)
	case r.failure == "":
		c.attempted(Delivered)
		return c.done(ctx, d)
	case r.gone:
		c.attempted(Failed)
		c.disable(r.failure)
		return nil
	}
	c.attempted(Failed)
	d.Attempts++
	d.Failure = r.failure
	c.log.Warn("message not delivered", zap.String("message", d.ID), logfield.Session(d.Session), logfield.Attempt(d.Attempts), zap.String("failure", d.Failure))
	if now.Sub(d.First.Std()) >= giveUp {
		if err := c.store.Bury(ctx, c.Name, d.Message); err != nil {
			return err
		}
		c.attempted(Dead)
		return c.done(ctx, d)
	}
	if r.pause > 0 {
		c.quiet = now.Add(r.pause)
	}
	d.Next = content.TimeOf(now.Add(max(r.pause, delayAfter(d.Attempts))))
	c.keep()
	return nil
}

// delayAfter returns how long to wait after a number of failed attempts. A random part keeps messages from
// arriving all at once.
func delayAfter(attempts int) time.Duration {
	d := maxDelay
	if attempts < 10 {
		d = min(d, firstDelay<<(attempts-1))
	}
	return d/2 + rand.N(d/2) //nolint:gosec // no secret
}

// done forgets a message that is settled.
func (c *deliverer) done(ctx context.Context, d *delivery) error {
	c.waiting = slices.DeleteFunc(c.waiting, func(other *delivery) bool { return other == d })
	if d.again {
		return c.store.Settled(ctx, c.Name, d.ID)
	}
	c.keep()
	return nil
}

// disable stops sending until someone enables the endpoint.
func (c *deliverer) disable(why string) {
	c.log.Error("endpoint disabled", zap.String("why", why))
	c.state.Disabled = why
}
