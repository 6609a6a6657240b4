package actor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
)

// ownConfig is what of a session's configuration the node decides: the hooks and the
// mutators that stand in its way, and by which policy its calls are judged.
type ownConfig struct {
	Hooks    []events.Registration `json:"hooks,omitempty"`
	Mutators []events.Registration `json:"mutators,omitempty"`
	Policy   string                `json:"policy,omitempty"`
}

// digest tells the node's part from another node's. It is empty if there is none.
func (o ownConfig) digest() (string, error) {
	if len(o.Hooks) == 0 && len(o.Mutators) == 0 && o.Policy == "" {
		return "", nil
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return "", fmt.Errorf("node config: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// configFor is the configuration of a session that comes to this node, if that differs
// from what it was before: its hooks and mutators are the node's now, and its agent's.
func (o *outfit) configFor(s *loop.State) *events.Config {
	if s.Config.Digest == o.digest {
		return nil
	}
	c := s.Config
	c.Digest, c.Hooks, c.Mutators = o.digest, o.own.Hooks, o.own.Mutators
	return &c
}

// asked are the answers of the hooks of a session's start or end, if the command is one
// that would be accepted.
func (d *Driver) asked(ctx context.Context, env commands.Envelope) ([]commands.HookAnswer, error) {
	point := extension.SessionEnd
	switch env.Command.(type) { //nolint:gochecksumtype // the others neither open nor close
	case commands.OpenSession:
		point = extension.SessionStart
	case commands.Close:
	default:
		return nil, nil
	}
	if !d.outfit.runner.Stands(point) {
		return nil, nil
	}
	if evs, err := loop.Decide(d.state, env); err != nil || len(evs) == 0 {
		return nil, nil //nolint:nilerr // it says so when it is decided
	}
	a := d.outfit.runner.Hooks(ctx, extension.HookEvent{Point: point, Session: d.state.Session})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return []commands.HookAnswer{a}, nil
}

// extended is the ask that opens a session, with the hooks and mutators of the node and
// of its agent beside those that it names: which of them stand in its way is not for a client to
// say.
func (o *outfit) extended(c commands.OpenSession) commands.OpenSession {
	c.Config.Digest = o.digest
	c.Config.Hooks = registered(c.Config.Hooks, o.own.Hooks)
	c.Config.Mutators = registered(c.Config.Mutators, o.own.Mutators)
	return c
}

// registered are the registrations of the node, and then the others.
func registered(named, own []events.Registration) []events.Registration {
	own = slices.Clip(own)
	for _, r := range named {
		if !slices.ContainsFunc(own, func(o events.Registration) bool { return o.Name == r.Name }) {
			own = append(own, r)
		}
	}
	return own
}
