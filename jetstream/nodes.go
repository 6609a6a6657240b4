package jetstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
)

const (
	// nodeTTL is how long a node's record stands without being made again. It
	// must outlast the lease of the tokens in it, which come back by themselves
	// after that.
	nodeTTL = tokenAckWait + 3*time.Second

	probeTimeout = 250 * time.Millisecond
	probeTries   = 3

	recordTimeout = 500 * time.Millisecond // for a record's acknowledgement
)

// HeldToken is a run token that a node holds.
type HeldToken struct {
	Session content.SessionID `msgpack:"s"`
	Reply   string            `msgpack:"r"`
}

// NodeRecord is what a node says of itself.
type NodeRecord struct {
	Node  string
	Held  []HeldToken
	Ahead time.Duration // its clock, of the server's; the way to the server counts as behind
}

// unknownClock is how far ahead the clock is of a node that does not say.
const unknownClock = time.Duration(math.MaxInt64)

// nodeValue is a record as it is kept.
type nodeValue struct {
	Node string       `msgpack:"n"`
	Held []HeldToken  `msgpack:"h"`
	At   content.Time `msgpack:"a,omitempty"` // by the node's clock; zero: an earlier release wrote it
}

// Nodes is how nodes know of one another, so that the tokens of one that died are
// handed on before their leases lapse. Nothing depends on it but that.
type Nodes struct {
	cell *Cell
}

// Nodes returns the cell's nodes.
func (c *Cell) Nodes() *Nodes { return &Nodes{cell: c} }

// Record says which tokens a node holds. The record stands for 15 s: make it
// again every 5 s, when the tokens changed, and after an error, since a server that
// says nothing is not waited for: what is held may be another thing by then.
func (n *Nodes) Record(ctx context.Context, node string, held []HeldToken) error {
	if !content.IsToken(node) {
		return fmt.Errorf("record node: %w: %q", content.ErrBadID, node)
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	value, err := encodeValue(&nodeValue{Node: node, Held: n.abbreviate(held), At: content.TimeOf(time.Now())})
	if err == nil {
		err = n.cell.keyPut(ctx, n.cell.names.nodesBucket(), node, value, nodeTTL)
	}
	if err != nil {
		return fmt.Errorf("record node %s: %w", node, err)
	}
	return nil
}

// Forget takes a node's record away, for one that leaves with empty hands.
func (n *Nodes) Forget(ctx context.Context, node string) error {
	if err := n.cell.keyDelete(ctx, n.cell.names.nodesBucket(), node, nodeTTL); err != nil {
		return fmt.Errorf("forget node %s: %w", node, err)
	}
	return nil
}

// List returns the records that stand, in the order in which they were made. What is
// no record of the node that its key names is left out.
func (n *Nodes) List(ctx context.Context) ([]NodeRecord, error) {
	var out []NodeRecord
	bucket := n.cell.names.nodesBucket()
	for m, err := range n.cell.batchGet(ctx, kvStream(bucket), kvKey(bucket, "*"), 0) {
		if err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		var v nodeValue
		if m.Aimed || m.gone() || unmarshal(m.Data, &v) != nil || m.Subject != kvKey(bucket, v.Node) {
			continue
		}
		r := NodeRecord{Node: v.Node, Held: v.Held, Ahead: unknownClock}
		if v.At != 0 {
			r.Ahead = v.At.Std().Sub(m.Time)
		}
		n.spellOut(r.Held)
		out = append(out, r)
	}
	return out, nil
}

// All reply subjects of tokens begin alike. A node holds thousands, and a record
// has to fit a message, so it leaves that beginning out.

func (n *Nodes) replyPrefix() string {
	return answerPrefix + n.cell.names.runStream() + "." + n.cell.names.runConsumer() + "."
}

func (n *Nodes) abbreviate(held []HeldToken) []HeldToken {
	out := make([]HeldToken, len(held))
	for i, h := range held {
		out[i] = HeldToken{Session: h.Session, Reply: strings.TrimPrefix(h.Reply, n.replyPrefix())}
	}
	return out
}

func (n *Nodes) spellOut(held []HeldToken) {
	for i, h := range held {
		if !strings.HasPrefix(h.Reply, answerPrefix) {
			held[i].Reply = n.replyPrefix() + h.Reply
		}
	}
}

// maxTold is how many tokens an answer names: what fits a message.
const maxTold = 4096

// Answer answers probes of the node until ctx ends, with the tokens that it holds and its
// record does not name yet. It returns at once. Records have a leader, which may be away
// when the node dies; whoever asked it just before knows of these tokens all the same.
func (n *Nodes) Answer(ctx context.Context, node string, unrecorded func() []HeldToken) error {
	sub, err := n.cell.nc.Subscribe(n.cell.names.probe(node), func(msg *nats.Msg) {
		var told []byte
		if held := unrecorded(); len(held) > 0 {
			told, _ = encodeValue(n.abbreviate(held[:min(len(held), maxTold)])) // without them it still lives
		}
		_ = msg.Respond(told) // a probe that is not answered is made again
	})
	if err != nil {
		return fmt.Errorf("answer probes of %s: %w", node, err)
	}
	context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() }) // the connection may be gone
	return nil
}

// Ask reports whether a node is alive, and returns the tokens that it named: those that its
// record lacks. It is dead if nobody listens on its subject, a moment later neither, when
// one that was only cut off is back; or if it lets three probes of 250 ms pass, as a host
// does that hangs. As long as the asker's own connection is in trouble, it takes the node
// for alive.
func (n *Nodes) Ask(ctx context.Context, node string) (unrecorded []HeldToken, lives bool) {
	absent := false
	for range probeTries {
		told, err := n.probe(ctx, node, probeTimeout)
		switch {
		case err == nil:
			return n.told(told), true
		case isNoResponders(err) && absent:
			return nil, false
		case isNoResponders(err):
			absent = true
			select {
			case <-time.After(probeTimeout):
			case <-ctx.Done():
				return nil, true
			}
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) || !n.hears(ctx):
			return nil, true
		}
	}
	return nil, false
}

// patientProbe is how long [Nodes.Answers] waits for one answer.
const patientProbe = 2 * time.Second

// Answers reports whether a node has answered, for whoever looks at a deployment rather
// than waits for its sessions: it lets a busy node take its time, and what it could not
// hear is no answer.
func (n *Nodes) Answers(ctx context.Context, node string) bool {
	for range probeTries {
		_, err := n.probe(ctx, node, patientProbe)
		if err == nil {
			return true
		}
		if isNoResponders(err) { // it may be connecting again
			select {
			case <-time.After(probeTimeout):
			case <-ctx.Done():
			}
		}
	}
	return false
}

// told reads the tokens of an answer; one that cannot be read names none.
func (n *Nodes) told(answer []byte) (held []HeldToken) {
	if len(answer) == 0 || unmarshal(answer, &held) != nil {
		return nil
	}
	n.spellOut(held)
	return held
}

// hears reports whether anything comes in by the own connection.
func (n *Nodes) hears(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return n.cell.nc.FlushWithContext(ctx) == nil
}

func (n *Nodes) probe(ctx context.Context, node string, patience time.Duration) (answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	msg, err := n.cell.nc.RequestWithContext(ctx, n.cell.names.probe(node), nil)
	if err != nil {
		return nil, err //nolint:wrapcheck // read by Ask only
	}
	return msg.Data, nil
}
