package move

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/signed"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream/signers"
)

// signatures checks entries against the target's directory of keys, as nodes there will do.
type signatures struct {
	signed.Entries

	own   string // the mover's key; "": it has none
	fault error  // the first fault
}

// signatures returns a checker for the entries of a session. The directory is not checked against a root. A
// false directory can only stop a move, not let anything pass, since nodes trust only the root's.
func (m *Mover) signatures(ctx context.Context) (*signatures, error) {
	d, err := signers.Peek(ctx, m.to.Cell.Cell)
	return &signatures{Entries: signed.Entries{Keys: d}, own: m.to.Key().ID()}, err
}

func (c *signatures) add(r journal.Record) {
	if c.Keys == nil {
		return
	}
	r.Moved, r.Stored = true, time.Time{}
	c.note(c.Add(r))
}

func (c *signatures) note(faults []*signed.FaultError) {
	if c.fault == nil && len(faults) > 0 {
		c.fault = faults[0]
	}
}

// end returns ErrKeys if a node would reject the entries, or the claim that follows them.
func (c *signatures) end() error {
	if c.Keys == nil {
		return nil
	}
	c.note(c.End())
	what := c.fault
	switch now := content.TimeOf(time.Now()); {
	case what != nil:
	case c.Version > c.Keys.Version:
		what = fmt.Errorf("a driver used version %d of a directory", c.Version)
	case c.own != "":
		if _, err := c.Keys.Valid(c.own, now, keys.Driver); err != nil {
			what = fmt.Errorf("the key with which this move signs: %w", err)
		}
	case c.Keys.Requires(keys.Driver, now):
		what = fmt.Errorf("the claim of the move: %w", keys.ErrUnsigned)
	}
	if what == nil {
		return nil
	}
	return fmt.Errorf("%w: they use version %d of their directory of keys: %w", ErrKeys, c.Keys.Version, what)
}

// opens returns ErrKeys if the session is sealed and a node of the target lacks every seal key that opens
// it.
func (m *Mover) opens(ctx context.Context, s content.SessionID) error {
	var wrappers []string
	for msg, err := range m.from.api.AllFromLeader(ctx, m.from.names.SealsStream(), m.from.names.Seal(s, "*"), 0) {
		if err != nil {
			return fmt.Errorf("its wrapped key: %w", err)
		}
		wrappers = append(wrappers, msg.Subject[strings.LastIndexByte(msg.Subject, '.')+1:])
	}
	if len(wrappers) == 0 {
		return nil
	}
	nodes, err := m.to.Nodes().Heartbeats(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n.SealKeys != nil && !slices.ContainsFunc(n.SealKeys, func(k string) bool { return slices.Contains(wrappers, k) }) {
			return fmt.Errorf("%w: the node %s does not have the seal key %s: add it to that node's --seal-key file", ErrKeys, n.Node, strings.Join(wrappers, " or "))
		}
	}
	return nil
}
