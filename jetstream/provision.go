package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// createTimeout is for one attempt at creating one thing, which a cluster has to
// agree on.
const createTimeout = 5 * time.Second

// Provision creates the streams, buckets and consumers of the cell that are not
// there. It may be called any number of times, also by several processes at once.
// What is there with other settings is never altered, and then nothing is created
// either: Provision returns a *MismatchError that lists every difference. It returns
// an *OverlapError if a subject of the cell is another stream's, and ErrNoJetStream
// if the server has no JetStream.
func (c *Cell) Provision(ctx context.Context, cfg Config) error {
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("provision %s: %w", c.names.ns, err)
	}
	rows := Topology(c.names.ns, cfg)
	err := together(rows, func(r Row) error { return c.compare(ctx, r) })
	if err == nil {
		err = together(rows, func(r Row) error { return c.createStream(ctx, r) })
	}
	if err == nil {
		var all []durable
		for _, r := range rows {
			all = append(all, r.consumers...)
		}
		err = together(all, func(d durable) error { return c.createConsumer(ctx, d) })
	}
	if err != nil {
		return fmt.Errorf("provision %s: %w", c.names.ns, err)
	}
	return nil
}

// compare checks that a stream and its consumers are as they are to be, as far as
// they are there, and that what is missing can be created.
func (c *Cell) compare(ctx context.Context, r Row) error {
	err := patiently(ctx, func(ctx context.Context) error { return noJetStream(c.compareStream(ctx, r)) })
	_, differs := errors.AsType[*MismatchError](err)
	switch {
	case isNoStream(err):
		return c.overlap(ctx, r)
	case err != nil && !differs:
		return err
	}
	errs := []error{err}
	for _, d := range r.consumers {
		err := patiently(ctx, func(ctx context.Context) error { return noJetStream(c.compareConsumer(ctx, d)) })
		if !isNoConsumer(err) {
			errs = append(errs, err)
		}
	}
	return joinErrors(errs)
}

// overlap returns an *OverlapError if another stream has a subject of r's.
func (c *Cell) overlap(ctx context.Context, r Row) error {
	for _, subject := range r.Subjects {
		list := c.js.StreamNames(ctx, jetstream.WithStreamListSubject(subject))
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

// EnsureQueue creates the queue unless it is there. Settings of q that are not
// zero must then be those that it has, else it returns a *MismatchError.
func (c *Cell) EnsureQueue(ctx context.Context, q QueueConfig) error {
	err := q.validate()
	if err == nil {
		err = c.createConsumer(ctx, c.names.queue(q))
	}
	if err != nil {
		return fmt.Errorf("queue %s of %s: %w", q.Name, c.names.ns, err)
	}
	return nil
}

// Check reports whether everything is there that Provision creates, queues aside.
// It returns ErrNotProvisioned with the names of what is missing, or
// ErrNoJetStream. It looks at names only, not at settings. Servers that do not
// answer, because they elect a leader, are asked again for a while. With roles it
// looks only at the streams that these are permitted to look at.
func (c *Cell) Check(ctx context.Context, as ...Role) error {
	var mu sync.Mutex
	var missing []string

	note := func(name string, err error) error {
		if !isNoStream(err) && !isNoConsumer(err) {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		missing = append(missing, name)
		return nil
	}
	rows := slices.DeleteFunc(Topology(c.names.ns, Config{}), func(r Row) bool { return !c.names.visible(r, as) })
	err := together(rows, func(r Row) error {
		if err := c.exists(ctx, apiStreamInfo+r.Stream); err != nil {
			return note(r.Stream, err)
		}
		for _, d := range r.consumers {
			if err := c.exists(ctx, apiConsumerInfo+r.Stream+"."+d.config.Durable); err != nil {
				return note(d.String(), err)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("check %s: %w", c.names.ns, err)
	case len(missing) > 0:
		slices.Sort(missing)
		return fmt.Errorf("check %s: %w: missing %s: provision the cell, or correct the namespace",
			c.names.ns, ErrNotProvisioned, strings.Join(missing, ", "))
	}
	return nil
}

// visible reports whether a user with the roles may look at a stream. Without roles
// nothing is known of the user.
func (n names) visible(r Row, as []Role) bool {
	may := func(role Role) bool { return slices.Contains(n.requests(role, ""), apiStreamInfo+r.Stream) }
	return len(as) == 0 || slices.ContainsFunc(as, may)
}

// exists asks for the description of a stream or a consumer until there is an answer.
func (c *Cell) exists(ctx context.Context, subject string) error {
	return patiently(ctx, func(ctx context.Context) error {
		_, err := c.ask(ctx, subject, nil)
		return noJetStream(err)
	})
}

// together runs do for all items at once, so that their requests travel behind
// one another, and joins what went wrong.
func together[T any](items []T, do func(T) error) error {
	errs := make([]error, len(items))
	var wg sync.WaitGroup
	for i, item := range items {
		wg.Go(func() { errs[i] = do(item) })
	}
	wg.Wait()
	return joinErrors(errs)
}

// joinErrors makes one mismatch of many. Any other error goes before: the first
// one, since all of them tend to have one reason.
func joinErrors(errs []error) error {
	var all MismatchError
	for _, err := range errs {
		m, ok := errors.AsType[*MismatchError](err)
		if err != nil && !ok {
			return err
		}
		if ok {
			all.Differences = append(all.Differences, m.Differences...)
		}
	}
	if len(all.Differences) > 0 {
		return &all
	}
	return nil
}

// createStream creates a stream or finds one with the same settings. The server
// answers the request for a stream that is there and equal as if it were new.
func (c *Cell) createStream(ctx context.Context, r Row) error {
	err := patiently(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, createTimeout)
		defer cancel()
		_, err := c.js.CreateStream(ctx, r.stream)
		return noJetStream(err)
	})
	switch {
	case isNameInUse(err):
		return c.compareStream(ctx, r)
	case isOverlap(err):
		if other := c.overlap(ctx, r); other != nil {
			return other
		}
		fallthrough
	case err != nil:
		return fmt.Errorf("create stream %s: %w", r.Stream, err)
	}
	return nil
}

func (c *Cell) compareStream(ctx context.Context, r Row) error {
	stream, err := c.js.Stream(ctx, r.Stream)
	if err != nil {
		return fmt.Errorf("compare stream %s: %w", r.Stream, err)
	}
	have := stream.CachedInfo().Config
	if d := differences(r.Stream, streamSettings(have), streamSettings(r.stream)); len(d) > 0 {
		return &MismatchError{Differences: d}
	}
	return nil
}

// createConsumer creates a durable consumer or finds one with the same settings.
func (c *Cell) createConsumer(ctx context.Context, d durable) error {
	err := patiently(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, createTimeout)
		defer cancel()
		_, err := c.js.CreateConsumer(ctx, d.stream, d.config)
		return noJetStream(err)
	})
	switch {
	case isNameInUse(err):
		return c.compareConsumer(ctx, d)
	case isNoStream(err):
		return fmt.Errorf("%w: stream %s is missing", ErrNotProvisioned, d.stream)
	case err != nil:
		return fmt.Errorf("create consumer %s: %w", d, err)
	}
	return nil
}

func (c *Cell) compareConsumer(ctx context.Context, d durable) error {
	consumer, err := c.js.Consumer(ctx, d.stream, d.config.Durable)
	if err != nil {
		return fmt.Errorf("compare consumer %s: %w", d, err)
	}
	diff := differences(d.String(), consumerSettings(consumer.CachedInfo().Config), consumerSettings(d.config))
	diff = slices.DeleteFunc(diff, func(x Difference) bool { return slices.Contains(d.free, x.Setting) })
	if len(diff) > 0 {
		return &MismatchError{Differences: diff}
	}
	return nil
}

// noJetStream says so in plain words if nobody answers for JetStream.
func noJetStream(err error) error {
	if isNoJetStream(err) || isNoResponders(err) {
		return fmt.Errorf("%w: %w", ErrNoJetStream, err)
	}
	return err
}
