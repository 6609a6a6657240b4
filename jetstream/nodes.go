package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/bucket"
	"github.com/turnlog/turnlog/jetstream/internal/held"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/internal/probe"
)

const (
	// NodeTTL is how long a node's record and its list last without renewal. It is longer than the leases of
	// the tokens in them.
	NodeTTL = LongLease + 45*time.Second

	recordTimeout = 500 * time.Millisecond // for a record's acknowledgement
)

// LongLease is how long a token may be held without a renewal if its node's confirmed record names it. A
// node that finds that node dead returns the token by name, so nothing waits this long.
const LongLease = 90 * time.Second

// ErrReplaced is returned by Record if another process changed or deleted the record: it took the node for
// dead, or has its name. Read the record with Standing.
var ErrReplaced = errors.New("another process has changed the record")

// HeldToken is a run token that a node holds.
type HeldToken = held.Token

// Appends holds how long it took to record entries.
type Appends = held.Appends

// NodeRecord is what a node reported about itself.
type NodeRecord struct {
	Node     string
	Held     []HeldToken
	Release  string   // of the node's program; empty for releases of 26 November 2026 or before
	Process  string   // differs for each process with the node's name; empty in records of an earlier release
	Appends  Appends  // in the seconds before the record; zero in records of an earlier release
	SealKeys []string // names of the seal keys that it has; nil in records of an earlier release
	Scripted bool     // it runs scripted models; users who start sessions write their scripts

	Ahead      time.Duration // by how much its clock is ahead of the server's, less the record's travel time
	AheadKnown bool          // false for a record of an earlier release
}

// Nodes lets nodes find dead peers and hand on their tokens before the leases expire. A node also learns
// from it whether others took it for dead. A node's record is a heartbeat, and a separate key lists the
// tokens that it holds.
type Nodes struct {
	cell    *Cell
	records bucket.Bucket[held.Record]
	lists   bucket.Bucket[held.List]
	last    []uint64 // the sequence of the record that Record replaces; nil: any
}

// Nodes returns the cell's nodes.
func (c *Cell) Nodes() *Nodes {
	return &Nodes{
		cell:    c,
		records: bucket.OfValues[held.Record](c.api, "record of node", c.names.Nodes(), "", 1, NodeTTL),
		lists:   bucket.OfValues[held.List](c.api, "list of tokens", c.names.Nodes(), "", 2, NodeTTL),
	}
}

// Record stores what a node reports about itself, except for its clock. Held is for peers of an earlier
// release, which read no lists. Record waits at most half a second, since the tokens may change meanwhile.
// After Standing it returns ErrReplaced if another process has changed the record. Only one goroutine may
// call it.
func (n *Nodes) Record(ctx context.Context, r NodeRecord) error {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	v := held.Record{Node: r.Node, Held: held.Abbreviate(r.Held, n.replyPrefix()), At: content.TimeOf(time.Now()), Scripted: r.Scripted, Process: r.Process, Release: r.Release, Appends: r.Appends, SealKeys: n.cell.SealRing().IDs()}
	seq, err := n.records.Put(ctx, r.Node, v, n.last...)
	if err == nil && n.last != nil {
		n.last = []uint64{seq}
	} else if api.IsConflict(err) {
		err = fmt.Errorf("%w: %w", ErrReplaced, err)
	}
	return err
}

// Standing returns the record of a node as the leader knows it. stands is false if there is none.
func (n *Nodes) Standing(ctx context.Context, node string) (r NodeRecord, stands bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	it, stands, err := n.records.Look(ctx, node)
	if err != nil {
		return r, false, err
	}
	n.last = []uint64{it.Seq}
	if !stands || it.Err != nil {
		return r, false, nil
	}
	list, listed, err := n.lists.Look(ctx, node+layout.ListKey)
	if err != nil {
		return r, false, err
	}
	r = n.record(it)
	if listed && list.Err == nil && list.Value.Process == r.Process {
		r.Held = append(r.Held, list.Value.Tokens()...)
	}
	return r, true, nil
}

// Name writes the list of the tokens that a process of a node holds, as many as fit into a message, and
// returns the listed ones, which are the first. It waits as long as Record.
func (n *Nodes) Name(ctx context.Context, r NodeRecord) (named []HeldToken, err error) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	list, named := held.NewList(r.Process, r.Held, int(n.cell.nc.MaxPayload()*7/8))
	_, err = n.lists.Put(ctx, r.Node+layout.ListKey, list)
	return named, err
}

// Forget deletes the record of a node that holds no tokens.
func (n *Nodes) Forget(ctx context.Context, node string) error { return n.records.Delete(ctx, node) }

// Heartbeats returns the current records without the lists, oldest first.
func (n *Nodes) Heartbeats(ctx context.Context) ([]NodeRecord, error) {
	items, err := n.records.Scan(ctx)
	var out []NodeRecord
	for _, it := range items {
		if it.Value.Node == it.Key {
			out = append(out, n.record(it))
		}
	}
	return out, err
}

func (n *Nodes) record(it bucket.Item[held.Record]) NodeRecord {
	v := it.Value
	r := NodeRecord{Node: v.Node, Held: v.Held, Scripted: v.Scripted, Process: v.Process, Release: v.Release, Appends: v.Appends, SealKeys: v.SealKeys}
	if v.At != 0 {
		r.Ahead, r.AheadKnown = v.At.Std().Sub(it.At), true
	}
	held.Expand(r.Held, n.replyPrefix())
	return r
}

// List returns the current records with all tokens, oldest first.
func (n *Nodes) List(ctx context.Context) ([]NodeRecord, error) {
	out, err := n.Heartbeats(ctx) // first: a node puts a token into its list before its record leaves it out
	if err != nil {
		return nil, err
	}
	lists, err := n.lists.Scan(ctx)
	for _, it := range lists {
		for i := range out {
			if r := &out[i]; it.Key == r.Node+layout.ListKey && it.Value.Process == r.Process {
				r.Held = append(r.Held, it.Value.Tokens()...)
			}
		}
	}
	return out, err
}

// replyPrefix returns the common start of the reply subjects of all tokens. Records omit it.
func (n *Nodes) replyPrefix() string {
	return api.AckPrefix + n.cell.names.RunStream() + "." + n.cell.names.RunConsumer() + "."
}

// Answer answers probes of the node's process until ctx ends, with the held tokens that its record does not
// name yet. It returns at once. If the node dies while the record's leader is down, a peer that has just
// probed the node still knows these tokens.
func (n *Nodes) Answer(ctx context.Context, node, process string, unrecorded func() []HeldToken) error {
	return probe.Answer(ctx, n.cell.nc, n.cell.names.Probe(node), process, func() []byte { return held.Encode(unrecorded(), n.replyPrefix()) })
}

// Ask reports whether a node is alive, and returns the held tokens that its record lacks and its process,
// which is empty for an earlier release. See [probe.Ask].
func (n *Nodes) Ask(ctx context.Context, node string) (unrecorded []HeldToken, process string, alive bool) {
	answer, process, alive := probe.Ask(ctx, n.cell.nc, n.cell.names.Probe(node), probe.Timeout)
	return held.Decode(answer, n.replyPrefix()), process, alive
}

// Answers is Ask for tools that inspect a deployment. It gives a busy node more time.
func (n *Nodes) Answers(ctx context.Context, node string) bool {
	_, _, alive := probe.Ask(ctx, n.cell.nc, n.cell.names.Probe(node), probe.Patient)
	return alive
}
