package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/bucket"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

const (
	// nodeTTL is how long a node's record stands without renewal: longer than the leases of the
	// tokens in it.
	nodeTTL = layout.TokenAckWait + 3*time.Second

	recordTimeout = 500 * time.Millisecond // for a record's acknowledgement

	probeTimeout   = 250 * time.Millisecond
	patientTimeout = 2 * time.Second // of a probe by Answers
	probeTries     = 3

	// maxUnrecorded is how many tokens fit into the answer to a probe.
	maxUnrecorded = 4096
)

// HeldToken is a run token that a node holds.
type HeldToken struct {
	Session content.SessionID `msgpack:"s"`
	Reply   string            `msgpack:"r"`
}

// NodeRecord is what a node reported about itself.
type NodeRecord struct {
	Node     string
	Held     []HeldToken
	Scripted bool // it runs scripted models, whose scripts come from those who start sessions

	Ahead      time.Duration // by which its clock is ahead of the server's, less the record's travel time
	AheadKnown bool          // false for a record of an earlier release
}

// nodeValue is a stored record.
type nodeValue struct {
	Node     string       `msgpack:"n"`
	Held     []HeldToken  `msgpack:"h"`
	At       content.Time `msgpack:"a,omitempty"` // by the node's clock; zero in records of an earlier release
	Scripted bool         `msgpack:"s,omitempty"`
}

// Nodes lets nodes find dead peers and hand on their tokens before the leases expire. Nothing else
// depends on it.
type Nodes struct {
	cell    *Cell
	records bucket.Bucket[nodeValue]
}

// Nodes returns the cell's nodes.
func (c *Cell) Nodes() *Nodes {
	return &Nodes{c, bucket.OfValues[nodeValue](c.api, "record of node", c.names.Nodes(), "", 1, nodeTTL)}
}

// Record stores what a node reports about itself, but for its clock. The record stands for 15 s: renew it every 5 s, when the
// tokens change, and after an error. Record waits at most half a second, since the tokens may change
// meanwhile.
func (n *Nodes) Record(ctx context.Context, r NodeRecord) error {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	_, err := n.records.Put(ctx, r.Node, nodeValue{
		Node: r.Node, Held: n.abbreviate(r.Held), At: content.TimeOf(time.Now()), Scripted: r.Scripted,
	})
	return err
}

// Forget deletes the record of a node that holds no tokens.
func (n *Nodes) Forget(ctx context.Context, node string) error { return n.records.Delete(ctx, node) }

// List returns the current records, oldest first.
func (n *Nodes) List(ctx context.Context) ([]NodeRecord, error) {
	items, err := n.records.Scan(ctx)
	var out []NodeRecord
	for _, it := range items {
		v := it.Value
		if v.Node != it.Key {
			continue
		}
		r := NodeRecord{Node: v.Node, Held: v.Held, Scripted: v.Scripted}
		if v.At != 0 {
			r.Ahead, r.AheadKnown = v.At.Std().Sub(it.At), true
		}
		n.expand(r.Held)
		out = append(out, r)
	}
	return out, err
}

// replyPrefix begins the reply subjects of all tokens. Records omit it, since a node holds thousands
// of tokens and its record must fit into a message.
func (n *Nodes) replyPrefix() string {
	return api.AckPrefix + n.cell.names.RunStream() + "." + n.cell.names.RunConsumer() + "."
}

func (n *Nodes) abbreviate(held []HeldToken) []HeldToken {
	out := make([]HeldToken, len(held))
	for i, h := range held {
		out[i] = HeldToken{Session: h.Session, Reply: strings.TrimPrefix(h.Reply, n.replyPrefix())}
	}
	return out
}

func (n *Nodes) expand(held []HeldToken) {
	for i, h := range held {
		if !strings.HasPrefix(h.Reply, api.AckPrefix) {
			held[i].Reply = n.replyPrefix() + h.Reply
		}
	}
}

// Answer answers probes of the node until ctx ends, with the held tokens that its record does not
// name yet. It returns at once. If the node dies while the record's leader is down, a peer that
// probed the node just before still knows these tokens.
func (n *Nodes) Answer(ctx context.Context, node string, unrecorded func() []HeldToken) error {
	sub, err := n.cell.nc.Subscribe(n.cell.names.Probe(node), func(msg *nats.Msg) {
		var answer []byte
		if held := unrecorded(); len(held) > 0 {
			answer, _ = encodeValue(n.abbreviate(held[:min(len(held), maxUnrecorded)])) // without them the answer still shows that it is alive
		}
		_ = msg.Respond(answer) // an unanswered probe is repeated
	})
	if err != nil {
		return fmt.Errorf("answer probes of %s: %w", node, err)
	}
	context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() }) // the connection may be gone
	return nil
}

// Ask reports whether a node is alive, and returns the held tokens that its record lacks. A node is
// dead if nothing subscribes to its subject, twice, with a pause in which a disconnected node can
// reconnect; or if it misses three probes of 250 ms, as a frozen host does. While the caller's own
// connection has problems, nodes count as alive.
func (n *Nodes) Ask(ctx context.Context, node string) (unrecorded []HeldToken, alive bool) {
	return n.ask(ctx, node, probeTimeout)
}

// Answers is Ask for tools that inspect a deployment. It gives a busy node more time.
func (n *Nodes) Answers(ctx context.Context, node string) bool {
	_, alive := n.ask(ctx, node, patientTimeout)
	return alive
}

func (n *Nodes) ask(ctx context.Context, node string, timeout time.Duration) (unrecorded []HeldToken, alive bool) {
	absent := false
	for range probeTries {
		answer, err := n.probe(ctx, node, timeout)
		switch {
		case err == nil:
			return n.unrecorded(answer), true
		case api.IsNoResponders(err) && absent:
			return nil, false
		case api.IsNoResponders(err):
			absent = true
			if !pause.For(ctx, probeTimeout) {
				return nil, true
			}
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) || !n.connected(ctx):
			return nil, true
		}
	}
	return nil, false
}

// unrecorded decodes the tokens in an answer; none if it is damaged.
func (n *Nodes) unrecorded(answer []byte) (held []HeldToken) {
	if len(answer) == 0 || decodeValue(answer, &held) != nil {
		return nil
	}
	n.expand(held)
	return held
}

// connected reports whether the caller's own connection receives anything.
func (n *Nodes) connected(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return n.cell.nc.FlushWithContext(ctx) == nil
}

func (n *Nodes) probe(ctx context.Context, node string, timeout time.Duration) (answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	msg, err := n.cell.nc.RequestWithContext(ctx, n.cell.names.Probe(node), nil)
	if err != nil {
		return nil, err //nolint:wrapcheck // only Ask and Answers read it
	}
	return msg.Data, nil
}
