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

// createTimeout bounds one attempt to create one object, which a cluster has to agree on.
const createTimeout = 5 * time.Second

// object is a stream or a durable consumer of a cell.
type object struct {
	name   string // of a consumer: the stream's, " > ", and its own
	stream string
	want   []setting
	free   []string // settings that may have any value

	fetch  func(context.Context, jetstream.JetStream) ([]setting, error)
	create func(context.Context, jetstream.JetStream) error
}

func (r Row) object() object {
	return object{
		name: r.Stream, stream: r.Stream, want: streamSettings(r.config),
		fetch: func(ctx context.Context, js jetstream.JetStream) ([]setting, error) {
			s, err := js.Stream(ctx, r.Stream)
			if err != nil {
				return nil, err //nolint:wrapcheck // compare names the object
			}
			return streamSettings(s.CachedInfo().Config), nil
		},
		create: func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.CreateStream(ctx, r.config)
			return err //nolint:wrapcheck // create names the object
		},
	}
}

func (d durable) object() object {
	return object{
		name: d.String(), stream: d.stream, want: consumerSettings(d.config), free: d.free,
		fetch: func(ctx context.Context, js jetstream.JetStream) ([]setting, error) {
			c, err := js.Consumer(ctx, d.stream, d.config.Durable)
			if err != nil {
				return nil, err //nolint:wrapcheck // compare names the object
			}
			return consumerSettings(c.CachedInfo().Config), nil
		},
		create: func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.CreateConsumer(ctx, d.stream, d.config)
			return err //nolint:wrapcheck // create names the object
		},
	}
}

// Provision creates the missing streams, buckets and consumers of the cell. It may be called any
// number of times, also by several processes at once. It never changes what exists: if settings
// differ, it creates nothing and returns a *MismatchError that lists every difference. It returns an
// *OverlapError if another stream has a subject of the cell, and ErrNoJetStream if the server has no
// JetStream.
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
	rows := Topology(c.names.NS, cfg)
	var consumers []durable
	for _, r := range rows {
		consumers = append(consumers, r.consumers...)
	}
	err := joinErrors(api.Together(rows, func(r Row) error { return c.compareRow(ctx, r) }))
	if err == nil {
		err = joinErrors(api.Together(rows, func(r Row) error { return c.createStream(ctx, r) }))
	}
	if err == nil {
		err = joinErrors(api.Together(consumers, func(d durable) error { return c.create(ctx, d.object()) }))
	}
	return err
}

// EnsureQueue creates the queue unless it exists. Settings of q that are not zero must then be those
// of the queue, or EnsureQueue returns a *MismatchError.
func (c *Cell) EnsureQueue(ctx context.Context, q QueueConfig) error {
	err := q.validate()
	if err == nil {
		err = c.create(ctx, c.names.queue(q).object())
	}
	if err != nil {
		return fmt.Errorf("queue %s of %s: %w", q.Name, c.names.NS, err)
	}
	return nil
}

// Check returns ErrNotProvisioned, with the names of the missing streams and consumers, unless
// everything exists that Provision creates; it ignores queues and all settings. It retries while
// servers elect a leader. With roles it covers only the streams that these may describe.
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

// visible returns the streams that a user with the roles may describe; without roles, all.
func (n names) visible(as []Role) []Row {
	return slices.DeleteFunc(Topology(n.NS, Config{}), func(r Row) bool {
		may := func(role Role) bool { return slices.Contains(n.requests(role, ""), api.StreamInfo+r.Stream) }
		return len(as) > 0 && !slices.ContainsFunc(as, may)
	})
}

// compareRow verifies that a stream and its consumers have the right settings, as far as they exist,
// and that the missing ones can be created.
func (c *Cell) compareRow(ctx context.Context, r Row) error {
	err := c.compare(ctx, r.object())
	_, differs := errors.AsType[*MismatchError](err)
	switch {
	case api.IsNoStream(err):
		return c.overlap(ctx, r)
	case err != nil && !differs:
		return err
	}
	errs := []error{err}
	for _, d := range r.consumers {
		if err := c.compare(ctx, d.object()); !api.IsNoConsumer(err) {
			errs = append(errs, err)
		}
	}
	return joinErrors(errs)
}

// compare returns a *MismatchError if an object has other settings.
func (c *Cell) compare(ctx context.Context, o object) error {
	var have []setting
	err := api.Patiently(ctx, func(ctx context.Context) (err error) {
		have, err = o.fetch(ctx, c.js)
		return noJetStream(err)
	})
	if err != nil {
		return fmt.Errorf("compare %s: %w", o.name, err)
	}
	if d := o.differences(have); len(d) > 0 {
		return &MismatchError{Differences: d}
	}
	return nil
}

// differences compares the settings of an object with those that it should have.
func (o object) differences(have []setting) []Difference {
	var out []Difference
	for i, w := range o.want {
		if have[i] != w && !slices.Contains(o.free, w.Name) {
			out = append(out, Difference{Object: o.name, Setting: w.Name, Have: have[i].Value, Want: w.Value})
		}
	}
	return out
}

// overlap returns an *OverlapError if another stream has a subject of r.
func (c *Cell) overlap(ctx context.Context, r Row) error {
	for _, subject := range r.config.Subjects {
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

func (c *Cell) createStream(ctx context.Context, r Row) error {
	err := c.create(ctx, r.object())
	if api.IsOverlap(err) {
		if other := c.overlap(ctx, r); other != nil {
			return other
		}
	}
	return err
}

// create creates an object or finds one with the same settings. For the server, creating an equal
// object again succeeds.
func (c *Cell) create(ctx context.Context, o object) error {
	err := api.Patiently(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, createTimeout)
		defer cancel()
		return noJetStream(o.create(ctx, c.js))
	})
	switch {
	case api.IsNameInUse(err):
		return c.compare(ctx, o)
	case api.IsNoStream(err):
		return fmt.Errorf("%w: stream %s is missing", api.ErrNotProvisioned, o.stream)
	case err != nil:
		return fmt.Errorf("create %s: %w", o.name, err)
	}
	return nil
}
