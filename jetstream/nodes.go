package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

const (
	// nodeTTL is how long a node's record stands without renewal. It must outlast the leases
	// of the tokens in it, which expire by themselves after that.
	nodeTTL = layout.TokenAckWait + 3*time.Second

	recordTimeout = 500 * time.Millisecond // for a record's acknowledgement

	probeTimeout   = 250 * time.Millisecond
	patientTimeout = 2 * time.Second // of a probe by Answers
	probeTries     = 3

	// maxUnrecorded is how many tokens an answer to a probe names: as many as fit a message.
	maxUnrecorded = 4096
)

// HeldToken is a run token that a node holds.
type HeldToken struct {
	Session content.SessionID `msgpack:"s"`
	Reply   string            `msgpack:"r"`
}

// NodeRecord is what a node says about itself.
type NodeRecord struct {
	Node string
	Held []HeldToken

	Ahead      time.Duration // of the server's clock, less the time that the record took to arrive
	AheadKnown bool          // false for a record of an earlier release
}

// nodeValue is a record as it is stored.
type nodeValue struct {
	Node string       `msgpack:"n"`
	Held []HeldToken  `msgpack:"h"`
	At   content.Time `msgpack:"a,omitempty"` // by the node's clock; zero in records of an earlier release
}

// Nodes is how nodes learn of each other, so that the tokens of a dead node are handed on
// before their leases expire. Nothing else depends on it.
type Nodes struct {
	cell    *Cell
	records bucket[nodeValue]
}

// Nodes returns the cell's nodes.
func (c *Cell) Nodes() *Nodes {
	return &Nodes{c, valueBucket[nodeValue](c, c.names.Nodes(), "", nodeTTL)}
}

// Record stores which tokens a node holds. The record stands for 15 s: renew it every 5 s, when
// the tokens change, and after an error. It does not wait for a silent server, since what is
// held may change meanwhile.
func (n *Nodes) Record(ctx context.Context, node string, held []HeldToken) error {
	if !content.IsToken(node) {
		return fmt.Errorf("record node: %w: %q", content.ErrBadID, node)
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	v := nodeValue{Node: node, Held: n.abbreviate(held), At: content.TimeOf(time.Now())}
	if _, err := n.records.put(ctx, node, v); err != nil {
		return fmt.Errorf("record node %s: %w", node, err)
	}
	return nil
}

// Forget deletes the record of a node that holds no tokens.
func (n *Nodes) Forget(ctx context.Context, node string) error {
	if err := n.records.delete(ctx, node); err != nil {
		return fmt.Errorf("forget node %s: %w", node, err)
	}
	return nil
}

// List returns the current records in the order in which they were made. It skips a value that
// is not a record of the node that its key names.
func (n *Nodes) List(ctx context.Context) ([]NodeRecord, error) {
	items, err := n.records.scan(ctx, "*")
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var out []NodeRecord
	for _, it := range items {
		v := it.Value
		if v.Node != it.Key {
			continue
		}
		r := NodeRecord{Node: v.Node, Held: v.Held}
		if v.At != 0 {
			r.Ahead, r.AheadKnown = v.At.Std().Sub(it.At), true
		}
		n.expand(r.Held)
		out = append(out, r)
	}
	return out, nil
}

// replyPrefix is what the reply subjects of all tokens begin with. A node holds thousands, and
// its record must fit a message, so records leave the prefix out.
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

// Answer answers probes of the node until ctx ends, with the tokens that it holds and that its
// record does not name yet. It returns at once. The record's leader may be down when the node
// dies; a peer that probed the node just before knows these tokens anyway.
func (n *Nodes) Answer(ctx context.Context, node string, unrecorded func() []HeldToken) error {
	sub, err := n.cell.nc.Subscribe(n.cell.names.Probe(node), func(msg *nats.Msg) {
		var answer []byte
		if held := unrecorded(); len(held) > 0 {
			answer, _ = encodeValue(n.abbreviate(held[:min(len(held), maxUnrecorded)])) // without them it is still alive
		}
		_ = msg.Respond(answer) // an unanswered probe is repeated
	})
	if err != nil {
		return fmt.Errorf("answer probes of %s: %w", node, err)
	}
	context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() }) // the connection may be gone
	return nil
}

// Ask reports whether a node is alive, and returns the tokens that it holds and that its record
// lacks. A node is dead if nothing subscribes to its subject, twice, with a pause in which a
// disconnected node returns; or if it misses three probes of 250 ms, as a frozen host does.
// While the caller's own connection is in trouble, nodes count as alive.
func (n *Nodes) Ask(ctx context.Context, node string) (unrecorded []HeldToken, alive bool) {
	absent := false
	for range probeTries {
		answer, err := n.probe(ctx, node, probeTimeout)
		switch {
		case err == nil:
			return n.unrecorded(answer), true
		case api.IsNoResponders(err) && absent:
			return nil, false
		case api.IsNoResponders(err):
			absent = true
			select {
			case <-time.After(probeTimeout):
			case <-ctx.Done():
				return nil, true
			}
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) || !n.connected(ctx):
			return nil, true
		}
	}
	return nil, false
}

// Answers reports whether a node answers. It is for tools that inspect a deployment, rather
// than wait for its sessions: it gives a busy node time, and any failure counts as no answer.
func (n *Nodes) Answers(ctx context.Context, node string) bool {
	for range probeTries {
		_, err := n.probe(ctx, node, patientTimeout)
		if err == nil {
			return true
		}
		if api.IsNoResponders(err) { // it may be reconnecting
			select {
			case <-time.After(probeTimeout):
			case <-ctx.Done():
			}
		}
	}
	return false
}

// unrecorded decodes an answer; one that cannot be decoded names no tokens.
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
