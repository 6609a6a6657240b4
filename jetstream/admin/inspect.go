package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

const apiConsumerList = "$JS.API.CONSUMER.LIST."

// inspectTries is how often a description is requested. A missing answer may be due to a missing
// permission, so there are few retries.
const inspectTries = 2

// A copy always lags a little while there are writes, and reports every second.
const (
	maxLag     = 1000
	maxSilence = 5 * time.Second
)

// Inspection is what the servers report about the streams of a cell, in the order of Topology.
type Inspection struct {
	Streams []StreamState
}

// StreamState is what a stream's leader reports.
type StreamState struct {
	Name   string // the same in every cell, such as JOURNAL
	Stream string
	Err    error // ErrNotProvisioned if it is missing, perhaps with an *OverlapError; otherwise why nothing is known

	Differences []Difference // from what Provision creates, except in storage and replicas
	Restoring   string       // the backup that the cell is being restored from; "": none
	Memory      bool
	Replicas    int      // as configured
	Servers     []string // with a copy, the leader first
	Lagging     []Lag

	Clock Clock // of the leader
}

// Lag is a replica that is far behind its leader or does not report.
type Lag struct {
	Server  string
	Offline bool
	Entries uint64 // how many entries it lacks
}

// Clock compares a server's clock with this machine's.
type Clock struct {
	Ahead  time.Duration // of this machine; negative: this machine is ahead
	Within time.Duration // the error bound
}

// ConsumerState is what a consumer's leader reports.
type ConsumerState struct {
	Stream      string
	Name        string
	Queue       string // of tasks; "" for run tokens
	Err         error  // api.ErrNotProvisioned if it is missing
	Differences []Difference
	Paused      bool

	Pulls     int    // pending requests for messages
	Waiting   uint64 // messages that were never delivered
	Held      int    // messages that were delivered but not acknowledged
	MaxHeld   int    // limit of Held; 0: none
	Delivered uint64 // sequence of the last delivered message
}

// Inspect describes all streams of the cell and compares them with what Provision creates. It changes
// nothing. Its only error is ErrNoJetStream; other failures are in the StreamStates. With roles it covers
// only the streams that users with those roles may describe.
func (c *Cell) Inspect(ctx context.Context, as ...Role) (Inspection, error) {
	out := Inspection{Streams: api.Together(c.names.visible(as), func(r Row) StreamState { return c.inspectStream(ctx, r) })}
	for _, s := range out.Streams {
		if api.IsNoJetStream(s.Err) {
			return out, fmt.Errorf("inspect %s: %w", c.names.NS, s.Err)
		}
	}
	return out, nil
}

// Limit is a limit of the account that has the cell. The account may contain other things, too.
type Limit struct {
	Of   string // storage, memory, streams or consumers; with tiers, the name of the tier comes first
	Used uint64
	Most uint64
}

// Limits returns the limits on JetStream that the account has.
func (c *Cell) Limits(ctx context.Context) (out []Limit, err error) {
	data, err := c.api.Ask(ctx, accountInfo, nil)
	if err != nil {
		return nil, fmt.Errorf("limits of the account: %w", noJetStream(err))
	}
	var info jetstream.AccountInfo
	if err := json.Unmarshal(data, &info); err != nil {
		return nil, fmt.Errorf("limits of the account: %w", err)
	}
	add := func(prefix string, t jetstream.Tier) {
		for _, l := range []struct {
			of   string
			used uint64
			most int64
		}{
			{"storage", max(t.Store, t.ReservedStore), t.Limits.MaxStore},
			{"memory", max(t.Memory, t.ReservedMemory), t.Limits.MaxMemory},
			{"streams", uint64(max(t.Streams, 0)), int64(t.Limits.MaxStreams)},
			{"consumers", uint64(max(t.Consumers, 0)), int64(t.Limits.MaxConsumers)},
		} {
			if l.most > 0 { // -1: none; 0: nothing of the kind is allowed, or the limits are those of tiers
				out = append(out, Limit{Of: prefix + l.of, Used: l.used, Most: uint64(l.most)})
			}
		}
	}
	add("", info.Tier)
	for _, name := range slices.Sorted(maps.Keys(info.Tiers)) {
		add(name+" ", info.Tiers[name])
	}
	return out, nil
}

// InspectConsumers describes the consumer of run tokens and those of all queues.
func (c *Cell) InspectConsumers(ctx context.Context) []ConsumerState {
	return append(c.inspectConsumers(ctx, c.names.RunStream()), c.inspectConsumers(ctx, c.names.TasksStream())...)
}

func (c *Cell) inspectStream(ctx context.Context, r Row) StreamState {
	s := StreamState{Name: r.Name, Stream: r.Stream}
	data, clock, err := c.describe(ctx, api.StreamInfo+r.Stream, nil)
	switch {
	case api.IsNoStream(err):
		s.Err = fmt.Errorf("%w: stream %s is missing", api.ErrNotProvisioned, r.Stream)
		if overlap := c.overlap(ctx, r); overlap != nil {
			s.Err = fmt.Errorf("%w: %w", s.Err, overlap)
		}
		return s
	case err != nil:
		s.Err = fmt.Errorf("stream %s: %w", r.Stream, noJetStream(err))
		return s
	}
	var info jetstream.StreamInfo
	if err := json.Unmarshal(data, &info); err != nil {
		s.Err = fmt.Errorf("description of stream %s: %w", r.Stream, err)
		return s
	}
	o := r.object()
	o.free = []string{"storage", "num_replicas"}
	s.Differences, s.Restoring = o.differences(info.Config), info.Config.Metadata[layout.MetaRestoring]
	s.Memory, s.Replicas = info.Config.Storage == jetstream.MemoryStorage, max(info.Config.Replicas, 1)
	s.Clock = clock.at(info.TimeStamp)
	s.placed(info.Cluster, c.nc.ConnectedServerName())
	return s
}

// placed records which servers have copies. A server without a cluster does not report that.
func (s *StreamState) placed(cl *jetstream.ClusterInfo, connected string) {
	if cl == nil {
		s.Servers = []string{connected}
		return
	}
	s.Servers = []string{cmp.Or(cl.Leader, connected)}
	for _, p := range cl.Replicas {
		s.Servers = append(s.Servers, p.Name)
		if silent := p.Active > maxSilence; p.Offline || silent || p.Lag > maxLag {
			s.Lagging = append(s.Lagging, Lag{Server: p.Name, Offline: p.Offline || silent, Entries: p.Lag})
		}
	}
}

// asked is when a request was sent and answered.
type asked struct{ sent, answered time.Time }

// at compares a server's time, from its answer, with this machine's.
func (a asked) at(server time.Time) Clock {
	half := a.answered.Sub(a.sent) / 2
	return Clock{Ahead: server.Sub(a.sent.Add(half)), Within: half}
}

// unknownPause is how long a newly elected leader of the cluster may take to learn which streams exist.
const unknownPause = 300 * time.Millisecond

// retryNotFound asks again after a pause if the stream is not found: a new leader of the cluster may not know it
// yet.
func retryNotFound(ctx context.Context, ask func() error) error {
	err := ask()
	if !api.IsNoStream(err) || !pause.For(ctx, unknownPause) {
		return err
	}
	return ask()
}

// describe requests a description, and records when it was sent and answered.
func (c *Cell) describe(ctx context.Context, subject string, query []byte) (data []byte, when asked, err error) {
	err = retryNotFound(ctx, func() (err error) {
		for range inspectTries {
			when.sent = time.Now()
			data, err = c.api.Ask(ctx, subject, query)
			when.answered = time.Now()
			if err == nil || !api.IsTransient(err) || ctx.Err() != nil {
				break
			}
		}
		return err
	})
	return data, when, err
}

// inspectConsumers describes the cell's consumers of RUN or TASKS.
func (c *Cell) inspectConsumers(ctx context.Context, stream string) []ConsumerState {
	infos, err := c.consumers(ctx, stream)
	if err != nil {
		return []ConsumerState{{Stream: stream, Err: fmt.Errorf("consumers of %s: %w", stream, noJetStream(err))}}
	}
	var out []ConsumerState
	for _, info := range infos {
		if o, ours := c.wantedConfig(stream, info.Name); ours {
			out = append(out, stateOf(info, o))
		}
	}
	if name := c.names.RunConsumer(); stream == c.names.RunStream() && len(out) == 0 {
		err := fmt.Errorf("%w: consumer %s of %s is missing", api.ErrNotProvisioned, name, stream)
		return []ConsumerState{{Stream: stream, Name: name, Err: err}}
	}
	return out
}

// wantedConfig returns the configuration that a consumer should have, if it is one of the cell's.
func (c *Cell) wantedConfig(stream, name string) (object, bool) {
	if stream == c.names.RunStream() {
		return c.names.drivers(), name == c.names.RunConsumer()
	}
	queue, ok := strings.CutPrefix(name, c.names.QueueConsumer(""))
	return c.names.queue(QueueConfig{Name: queue}), ok
}

func stateOf(info jetstream.ConsumerInfo, o object) ConsumerState {
	queue, ok := strings.CutPrefix(info.Name, layout.Names{}.QueueConsumer(""))
	if !ok {
		queue = ""
	}
	return ConsumerState{
		Stream: o.stream, Name: info.Name, Queue: queue, Differences: o.differences(info.Config),
		Paused: info.Paused, Pulls: info.NumWaiting, Waiting: info.NumPending,
		Held: info.NumAckPending, MaxHeld: max(info.Config.MaxAckPending, 0), Delivered: info.Delivered.Stream,
	}
}

// consumers describes all consumers of a stream.
func (c *Cell) consumers(ctx context.Context, stream string) ([]jetstream.ConsumerInfo, error) {
	var all []jetstream.ConsumerInfo
	for {
		data, _, err := c.describe(ctx, apiConsumerList+stream, fmt.Appendf(nil, `{"offset":%d}`, len(all)))
		if err != nil {
			return nil, err
		}
		var page struct {
			Total     int                      `json:"total"`
			Consumers []jetstream.ConsumerInfo `json:"consumers"`
		}
		if err := json.Unmarshal(data, &page); err != nil {
			return nil, fmt.Errorf("description of consumers: %w", err)
		}
		all = append(all, page.Consumers...)
		if len(all) >= page.Total || len(page.Consumers) == 0 {
			return all, nil
		}
	}
}

// Unreadable tries the requests that read sessions, without any effect, and returns the errors of those
// that failed, by subject.
func (c *Cell) Unreadable(ctx context.Context) map[string]error {
	n := c.names
	none := []byte(`{"last_by_subj":"` + n.NS + `.nothing"}`)
	subjects := []string{
		api.MsgGet + n.JournalStream(), api.MsgGet + n.InboxStream(), api.MsgGet + n.NamedStream(), api.MsgGet + n.TimersStream(), api.MsgGet + n.RunStream(),
		api.DirectGet + n.JournalStream(), api.DirectGet + n.Nodes().Stream(), api.DirectGet + n.Catalog().Stream(),
		n.Probe("none"),
	}
	errs := api.Together(subjects, func(subject string) error {
		_, _, err := c.describe(ctx, subject, none)
		if api.IsNotFound(err) || api.IsNoStream(err) || api.IsNoResponders(err) {
			return nil
		}
		return err
	})
	out := make(map[string]error)
	for i, err := range errs {
		if err != nil {
			out[subjects[i]] = err
		}
	}
	return out
}
