package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// createTimeout bounds one attempt to create one thing, which a cluster has to agree on.
const createTimeout = 5 * time.Second

// Provision creates the missing streams, buckets and consumers of the cell. It may be called any
// number of times, also by several processes at once. It never alters what exists: if settings
// differ, nothing is created and Provision returns a *MismatchError that lists every difference.
// It returns an *OverlapError if another stream has a subject of the cell, and ErrNoJetStream if
// the server has no JetStream.
func (c *Cell) Provision(ctx context.Context, cfg Config) error {
	if err := c.provision(ctx, cfg); err != nil {
		return fmt.Errorf("provision %s: %w", c.names.NS, err)
	}
	return nil
}

func (c *Cell) provision(ctx context.Context, cfg Config) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	p, err := c.provisioner()
	if err != nil {
		return err
	}
	rows := Topology(c.names.NS, cfg)
	if err := joinErrors(api.Together(rows, func(r Row) error { return p.compare(ctx, r) })); err != nil {
		return err
	}
	if err := joinErrors(api.Together(rows, func(r Row) error { return p.createStream(ctx, r) })); err != nil {
		return err
	}
	var consumers []durable
	for _, r := range rows {
		consumers = append(consumers, r.consumers...)
	}
	return joinErrors(api.Together(consumers, func(d durable) error { return p.createConsumer(ctx, d) }))
}

// EnsureQueue creates the queue unless it exists. Settings of q that are not zero must then be
// those of the queue, else it returns a *MismatchError.
func (c *Cell) EnsureQueue(ctx context.Context, q QueueConfig) error {
	if err := c.ensureQueue(ctx, q); err != nil {
		return fmt.Errorf("queue %s of %s: %w", q.Name, c.names.NS, err)
	}
	return nil
}

func (c *Cell) ensureQueue(ctx context.Context, q QueueConfig) error {
	if err := q.validate(); err != nil {
		return err
	}
	p, err := c.provisioner()
	if err != nil {
		return err
	}
	return p.createConsumer(ctx, c.names.queue(q))
}

// Check reports whether everything exists that Provision creates, except queues. It returns
// ErrNotProvisioned with the names of what is missing, or ErrNoJetStream. It looks at names
// only, not at settings, and retries while servers elect a leader. With roles it looks only at
// the streams that these may look at.
func (c *Cell) Check(ctx context.Context, as ...Role) error {
	var mu sync.Mutex
	var missing []string
	check := func(name, request string) (exists bool, err error) {
		err = api.Patiently(ctx, func(ctx context.Context) error {
			_, err := c.api.Ask(ctx, request, nil)
			return noJetStream(err)
		})
		if api.IsNoStream(err) || api.IsNoConsumer(err) {
			mu.Lock()
			defer mu.Unlock()
			missing = append(missing, name)
			return false, nil
		}
		return err == nil, err
	}
	err := api.ForEach(c.names.visible(as), func(r Row) error {
		exists, err := check(r.Stream, api.StreamInfo+r.Stream)
		for _, d := range r.consumers {
			if exists {
				exists, err = check(d.String(), api.ConsumerInfo+r.Stream+"."+d.config.Durable)
			}
		}
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("check %s: %w", c.names.NS, err)
	case len(missing) > 0:
		slices.Sort(missing)
		return fmt.Errorf("check %s: %w: missing %s: provision the cell, or correct the namespace",
			c.names.NS, api.ErrNotProvisioned, strings.Join(missing, ", "))
	}
	return nil
}

// visible returns the streams that a user with the roles may look at. Without roles nothing is
// known of the user, and all count.
func (n names) visible(as []Role) []Row {
	return slices.DeleteFunc(Topology(n.NS, Config{}), func(r Row) bool {
		may := func(role Role) bool { return slices.Contains(n.requests(role, ""), api.StreamInfo+r.Stream) }
		return len(as) > 0 && !slices.ContainsFunc(as, may)
	})
}

// provisioner creates streams and consumers, and compares those that exist.
type provisioner struct {
	js jetstream.JetStream
}

func (c *Cell) provisioner() (provisioner, error) {
	js, err := jetstream.New(c.nc)
	return provisioner{js}, err //nolint:wrapcheck // Provision names itself
}

// compare verifies that a stream and its consumers are as they should be, as far as they exist,
// and that the missing ones can be created.
func (p provisioner) compare(ctx context.Context, r Row) error {
	err := api.Patiently(ctx, func(ctx context.Context) error { return noJetStream(p.compareStream(ctx, r)) })
	_, differs := errors.AsType[*MismatchError](err)
	switch {
	case api.IsNoStream(err):
		return p.overlap(ctx, r)
	case err != nil && !differs:
		return err
	}
	errs := []error{err}
	for _, d := range r.consumers {
		err := api.Patiently(ctx, func(ctx context.Context) error { return noJetStream(p.compareConsumer(ctx, d)) })
		if !api.IsNoConsumer(err) {
			errs = append(errs, err)
		}
	}
	return joinErrors(errs)
}

// overlap returns an *OverlapError if another stream has a subject of r.
func (p provisioner) overlap(ctx context.Context, r Row) error {
	for _, subject := range r.Subjects {
		list := p.js.StreamNames(ctx, jetstream.WithStreamListSubject(subject))
		for name := range list.Name() {
			if name != r.Stream {
				return &OverlapError{Stream: r.Stream, Subject: subject, Other: name}
			}
		}
		if err := list.Err(); err != nil {
			return fmt.Errorf("streams on %s: %w", subject, noJetStream(err))
		}
	}
	return nil
}

// createStream creates a stream or finds one with the same settings. For the server, creating an
// equal stream again succeeds.
func (p provisioner) createStream(ctx context.Context, r Row) error {
	err := create(ctx, func(ctx context.Context) error {
		_, err := p.js.CreateStream(ctx, r.config)
		return err //nolint:wrapcheck // wrapped below
	})
	switch {
	case api.IsNameInUse(err):
		return p.compareStream(ctx, r)
	case api.IsOverlap(err):
		if other := p.overlap(ctx, r); other != nil {
			return other
		}
		fallthrough
	case err != nil:
		return fmt.Errorf("create stream %s: %w", r.Stream, err)
	}
	return nil
}

func (p provisioner) compareStream(ctx context.Context, r Row) error {
	stream, err := p.js.Stream(ctx, r.Stream)
	if err != nil {
		return fmt.Errorf("compare stream %s: %w", r.Stream, err)
	}
	have := stream.CachedInfo().Config
	if d := differences(r.Stream, streamSettings(have), streamSettings(r.config)); len(d) > 0 {
		return &MismatchError{Differences: d}
	}
	return nil
}

// createConsumer creates a durable consumer or finds one with the same settings.
func (p provisioner) createConsumer(ctx context.Context, d durable) error {
	err := create(ctx, func(ctx context.Context) error {
		_, err := p.js.CreateConsumer(ctx, d.stream, d.config)
		return err //nolint:wrapcheck // wrapped below
	})
	switch {
	case api.IsNameInUse(err):
		return p.compareConsumer(ctx, d)
	case api.IsNoStream(err):
		return fmt.Errorf("%w: stream %s is missing", api.ErrNotProvisioned, d.stream)
	case err != nil:
		return fmt.Errorf("create consumer %s: %w", d, err)
	}
	return nil
}

func (p provisioner) compareConsumer(ctx context.Context, d durable) error {
	consumer, err := p.js.Consumer(ctx, d.stream, d.config.Durable)
	if err != nil {
		return fmt.Errorf("compare consumer %s: %w", d, err)
	}
	if diff := d.differences(consumer.CachedInfo().Config); len(diff) > 0 {
		return &MismatchError{Differences: diff}
	}
	return nil
}

func create(ctx context.Context, do func(context.Context) error) error {
	return api.Patiently(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, createTimeout)
		defer cancel()
		return noJetStream(do(ctx))
	})
}
