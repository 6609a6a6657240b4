package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/tickets"
)

// object is a stream or a durable consumer of a cell.
type object struct {
	name   string // of a consumer: its stream, " > ", and its own name
	stream string
	info   string   // the subject for requests of its description
	config any      // a jetstream.StreamConfig or a jetstream.ConsumerConfig
	free   []string // settings that may have any value, or any that caps accepts

	caps func(stream string, have jetstream.StreamConfig) []Difference // nil: free settings have no conditions
}

func (r Row) object() object {
	o := object{name: r.Stream, stream: r.Stream, info: api.StreamInfo + r.Stream, config: r.config}
	switch r.Name {
	case "INBOX":
		o.free = []string{"max_msgs", "max_bytes", "max_msgs_per_subject", "discard", "discard_new_per_subject"}
		o.caps = inboxCaps
	case "TASKS": // it rejects new messages anyway
		o.free = []string{"max_msgs", "max_bytes"}
	}
	return o
}

// minPerLane is the smallest cap on the commands of one lane. A busy session keeps several hundred handled
// commands.
const minPerLane = 1000

// inboxCaps checks the caps that an operator has set on INBOX: when it is full, it must reject new commands
// and not lose old ones.
func inboxCaps(stream string, have jetstream.StreamConfig) (out []Difference) {
	must := func(setting string, have, want any) {
		out = append(out, Difference{Object: stream, Setting: setting, Have: render(have), Want: render(want)})
	}
	perSubject := have.MaxMsgsPerSubject > 0
	if capped := perSubject || have.MaxMsgs > 0 || have.MaxBytes > 0; capped && have.Discard != jetstream.DiscardNew {
		must("discard", have.Discard, jetstream.DiscardNew)
	}
	if perSubject && !have.DiscardNewPerSubject {
		must("discard_new_per_subject", false, true)
	}
	if perSubject && have.MaxMsgsPerSubject < minPerLane {
		must("max_msgs_per_subject", have.MaxMsgsPerSubject, int64(minPerLane))
	}
	return out
}

func consumerOf(stream string, c jetstream.ConsumerConfig, free ...string) object {
	return object{name: stream + " > " + c.Durable, stream: stream, info: api.ConsumerInfo + stream + "." + c.Durable, config: c, free: free}
}

// differences compares o with its configuration on the server.
func (o object) differences(config any) (out []Difference) {
	have := settings(config)
	for i, want := range settings(o.config) {
		if have[i] != want && !slices.Contains(o.free, want.Name) {
			out = append(out, Difference{Object: o.name, Setting: want.Name, Have: have[i].Value, Want: want.Value})
		}
	}
	if c, ok := config.(jetstream.StreamConfig); ok && o.caps != nil {
		out = append(out, o.caps(o.name, c)...)
	}
	return out
}

// Provision creates the missing streams, buckets and consumers of the cell, and its key of tickets. It may
// be called any number of times, even by several processes at once. It never changes what exists: if
// settings differ, it creates nothing and returns a *MismatchError that lists every difference. It returns
// an *OverlapError if another stream has a subject of the cell, and ErrNoJetStream if the server has no
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
	var consumers []object
	for _, r := range rows {
		consumers = append(consumers, r.consumers...)
	}
	empty, err := c.hasNoStreams(ctx)
	if err == nil && !empty {
		err = joinErrors(api.Together(rows, func(r Row) error { return c.compareRow(ctx, r, cfg.Restoring) }))
	}
	if err == nil {
		err = joinErrors(api.Together(rows, func(r Row) error { return c.create(ctx, r.object()) }))
	}
	if err == nil {
		err = joinErrors(api.Together(consumers, func(o object) error { return c.create(ctx, o) }))
	}
	if err == nil {
		err = tickets.CreateKey(ctx, c.cell)
	}
	return err
}

// hasNoStreams reports whether the account has no streams, so that there is nothing to compare.
func (c *Cell) hasNoStreams(ctx context.Context) (bool, error) {
	var names struct {
		Total int `json:"total"`
	}
	err := api.Patiently(ctx, func(ctx context.Context) error {
		data, err := c.api.Ask(ctx, streamNames, nil)
		if err != nil {
			return noJetStream(err)
		}
		return json.Unmarshal(data, &names)
	})
	if err != nil {
		return false, fmt.Errorf("list streams: %w", err)
	}
	return names.Total == 0, nil
}

// EnsureQueue creates the queue unless it exists. If it exists, the nonzero settings of q must match, or
// EnsureQueue returns a *MismatchError.
func (c *Cell) EnsureQueue(ctx context.Context, q QueueConfig) error {
	err := q.validate()
	if err == nil {
		err = c.create(ctx, c.names.queue(q))
	}
	if err != nil {
		return fmt.Errorf("queue %s of %s: %w", q.Name, c.names.NS, err)
	}
	return nil
}

// Check returns ErrNotProvisioned, with the names of the missing streams and consumers, unless everything
// exists that Provision creates. It ignores queues and all settings. It retries while servers elect a
// leader. With roles it covers only the streams that users with those roles may describe.
func (c *Cell) Check(ctx context.Context, as ...Role) error {
	var objects []object
	for _, r := range c.names.visible(as) {
		objects = append(append(objects, r.object()), r.consumers...)
	}
	errs := api.Together(objects, func(o object) error {
		return api.Patiently(ctx, func(ctx context.Context) error {
			data, err := c.api.Ask(ctx, o.info, nil)
			if err != nil {
				return noJetStream(err)
			}
			return whole(data)
		})
	})
	var missing []string
	for i, err := range errs {
		switch o := objects[i]; {
		case api.IsNoStream(err) && o.name != o.stream: // its stream is missing
		case api.IsNoStream(err), api.IsNoConsumer(err):
			missing = append(missing, o.name)
		case err != nil:
			return fmt.Errorf("check %s: %w", c.names.NS, err)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("check %s: %w: missing %s: provision the cell, or correct the namespace",
			c.names.NS, api.ErrNotProvisioned, strings.Join(missing, ", "))
	}
	return nil
}

// ErrRestoring is returned by Check and Provision for a cell whose restore was interrupted. Repeat the restore.
var ErrRestoring = errors.New("the restore of the deployment is not finished")

// whole returns ErrRestoring if a stream's description says so.
func whole(description []byte) error {
	var info struct {
		Config struct{ Metadata map[string]string }
	}
	if err := json.Unmarshal(description, &info); err != nil {
		return fmt.Errorf("description of a stream: %w", err)
	}
	return restored(info.Config.Metadata)
}

// restored returns ErrRestoring if a stream's metadata says so.
func restored(metadata map[string]string) error {
	if of := metadata[layout.MetaRestoring]; of != "" {
		return fmt.Errorf("%w: repeat \"turnlog restore\" with the backup %s", ErrRestoring, of)
	}
	return nil
}

// visible returns the streams that a user with the roles may describe; without roles, all.
func (n names) visible(as []Role) []Row {
	var may []string
	for _, role := range as {
		may = append(may, n.requests(role, "", "")...)
	}
	return slices.DeleteFunc(Topology(n.NS, Config{}), func(r Row) bool {
		return len(as) > 0 && !slices.Contains(may, api.StreamInfo+r.Stream)
	})
}

// compareRow verifies that a stream and its consumers have the right settings if they exist, and can be
// created if they do not. restoring says that the stream may be of a restore that is not finished.
func (c *Cell) compareRow(ctx context.Context, r Row, restoring bool) error {
	config, err := c.compare(ctx, r.object())
	_, differs := errors.AsType[*MismatchError](err)
	switch {
	case api.IsNoStream(err):
		return c.overlap(ctx, r)
	case err != nil && !differs:
		return err
	}
	if has, ok := config.(jetstream.StreamConfig); ok && !restoring {
		if err := restored(has.Metadata); err != nil {
			return err
		}
	}
	errs := []error{err}
	for _, o := range r.consumers {
		if _, err := c.compare(ctx, o); !api.IsNoConsumer(err) {
			errs = append(errs, err)
		}
	}
	return joinErrors(errs)
}

// compare returns the configuration of an object on the server, and a *MismatchError if it has other settings.
func (c *Cell) compare(ctx context.Context, o object) (config any, err error) {
	err = api.Patiently(ctx, func(ctx context.Context) (err error) {
		config, err = c.configOf(ctx, o)
		return noJetStream(err)
	})
	if err != nil {
		return nil, fmt.Errorf("compare %s: %w", o.name, err)
	}
	if d := o.differences(config); len(d) > 0 {
		return config, &MismatchError{Differences: d}
	}
	return config, nil
}

// configOf returns the configuration of an object on the server.
func (c *Cell) configOf(ctx context.Context, o object) (any, error) {
	data, err := c.api.Ask(ctx, o.info, nil)
	if err != nil {
		return nil, err
	}
	if _, ok := o.config.(jetstream.ConsumerConfig); ok {
		var info jetstream.ConsumerInfo
		err := json.Unmarshal(data, &info)
		return info.Config, err //nolint:wrapcheck // Provision names the object
	}
	var info jetstream.StreamInfo
	err = json.Unmarshal(data, &info)
	return info.Config, err //nolint:wrapcheck // as above
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

// create creates an object or finds one with the same settings. The server accepts it if an equal object is
// created again.
func (c *Cell) create(ctx context.Context, o object) error {
	err := api.Patiently(ctx, func(ctx context.Context) error {
		if config, ok := o.config.(jetstream.ConsumerConfig); ok {
			ctx, cancel := context.WithTimeout(ctx, api.CreateTimeout)
			defer cancel()
			_, err := c.js.CreateConsumer(ctx, o.stream, config)
			return noJetStream(err)
		}
		return noJetStream(c.api.CreateStream(ctx, o.config.(jetstream.StreamConfig)))
	})
	_, denied := api.Denied(err)
	switch {
	case denied: // names its subject, which may be that of another object: callers end ctx at the first denial
		return err
	case api.IsNameInUse(err):
		_, err = c.compare(ctx, o)
		return err
	case api.IsNoStream(err):
		return fmt.Errorf("%w: stream %s is missing", api.ErrNotProvisioned, o.stream)
	case err != nil:
		return fmt.Errorf("create %s: %w", o.name, err)
	}
	return nil
}
