package actor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/session"
)

// Agents makes the agents of sessions. agentfile.Host implements it. Implementations are safe for concurrent
// use.
type Agents interface {
	// Begin completes the configuration of a new session that names an agent, and returns the start of its
	// transcript. It returns a *commands.Rejection if the session cannot be opened.
	Begin(ctx context.Context, asked events.Config) (events.Config, []content.Item, error)
	// Equip returns what the session's agent adds to its node.
	Equip(c events.Config) (engine.Equipment, error)
}

// agentRuntime performs the effects of the sessions of one agent, or of sessions without an agent.
type agentRuntime struct {
	engine.Equipment

	runner *engine.Runner
	own    ownConfig
	digest string // of own
	terms  string // identifies the terms of the agent's tools; "": there are none
}

// ownConfig is the part of a session's configuration that the node and the agent set.
type ownConfig struct {
	Hooks    []events.Registration `json:"hooks,omitempty"`
	Mutators []events.Registration `json:"mutators,omitempty"`
	Version  string                `json:"policy,omitempty"`
}

func newAgentRuntime(node Config, e engine.Equipment) (*agentRuntime, error) {
	a := &agentRuntime{Equipment: e, runner: engine.NewRunner(node.Effects.With(e))}
	a.own.Hooks, a.own.Mutators = a.runner.Registrations()
	a.own.Version = node.Version
	if len(a.own.Hooks) > 0 || len(a.own.Mutators) > 0 || a.own.Version != "" {
		raw, err := json.Marshal(a.own)
		if err != nil {
			return nil, fmt.Errorf("node config: %w", err)
		}
		sum := sha256.Sum256(raw)
		a.digest = hex.EncodeToString(sum[:])
	}
	if len(e.Terms) > 0 {
		terms, err := json.Marshal(e.Terms)
		if err != nil {
			return nil, fmt.Errorf("terms of tools: %w", err)
		}
		a.terms = "\x00" + string(terms)
	}
	return a, nil
}

// changed returns the new configuration of a session that moves to this node, or nil if nothing changes.
func (a *agentRuntime) changed(s *loop.State) *events.Config {
	if s.Config.Digest == a.digest {
		return nil
	}
	c := s.Config
	c.Digest, c.Hooks, c.Mutators = a.digest, a.own.Hooks, a.own.Mutators
	return &c
}

// register adds the hooks and mutators of the node and the agent to the client's. A client cannot leave any
// of them out.
func (a *agentRuntime) register(c *events.Config) {
	c.Digest = a.digest
	c.Hooks, c.Mutators = union(a.own.Hooks, c.Hooks), union(a.own.Mutators, c.Mutators)
}

// union returns own, then those of others that are not in own.
func union(own, others []events.Registration) []events.Registration {
	own = slices.Clip(own)
	for _, r := range others {
		if !slices.ContainsFunc(own, func(o events.Registration) bool { return o.Name == r.Name }) {
			own = append(own, r)
		}
	}
	return own
}

// errUnmade ends a driver if its node cannot make the session's agent, for example because a later release
// wrote the agent.
var errUnmade = errors.New("the session's agent cannot be made on this node")

// agentOf returns the runtime for sessions with that configuration. There is one per version of an agent. It
// returns errUnmade if the node cannot make the agent.
func (n *Node) agentOf(c events.Config) (*agentRuntime, error) {
	if c.Agent == nil {
		return n.noAgent, nil
	}
	if n.cfg.Agents == nil {
		return nil, fmt.Errorf("%w: the node has no agents", errUnmade)
	}
	key := sha256.Sum256(slices.Concat(c.Agent.Data, []byte("\x00"+c.Model+"\x00"), c.ModelData))
	return n.agents.Get(key, func() (*agentRuntime, error) {
		e, err := n.cfg.Agents.Equip(c)
		if err != nil {
			return nil, fmt.Errorf("%w: agent %s, version %s: %w", errUnmade, c.Agent.Name, c.Agent.Version, err)
		}
		return newAgentRuntime(n.cfg, e)
	})
}

// bind gives the driver the runtime of the session's agent. The runtime changes only when the session's model
// does. Effects that are already running keep the earlier one.
func (d *driver) bind(c events.Config) error {
	a, err := d.node.agentOf(c)
	if err == nil {
		d.agent.Store(a)
	}
	return err
}

// checkModel refuses a change to a model that no node can open, or with which this node cannot make the
// session's agent.
func (d *driver) checkModel(_ context.Context, env *commands.Envelope) error {
	c, ok := env.Command.(commands.SwitchModel)
	if !ok || !d.State.Opened {
		return nil // the core refuses it
	}
	_, err := d.node.openModel(c.Model, c.Data)
	if other, ok := errors.AsType[elsewhere](err); ok && other.Elsewhere() {
		err = nil
	}
	if err == nil {
		config := d.State.Config
		config.Model, config.ModelData = c.Model, c.Data
		_, err = d.node.agentOf(config)
	}
	if err != nil {
		return commands.Refuse(commands.ReasonInvalidInput, "%v", err)
	}
	return nil
}

// openWithAgent completes the command that opens a session. It adds the history that the session continues,
// and the configuration, transcript and extensions of its agent.
func (d *driver) openWithAgent(ctx context.Context, env *commands.Envelope) error {
	c, ok := env.Command.(commands.OpenSession)
	if !ok || d.State.Opened {
		return nil // the core refuses it
	}
	named := c.Config.Agent != nil // a fork without a name keeps its origin's agent
	if at, fork := c.Origin(); fork {
		var err error
		if c, err = d.node.fork(ctx, at, c); err != nil {
			return err
		}
	}
	if named {
		agents := d.node.cfg.Agents
		if agents == nil {
			return &commands.Rejection{Reason: commands.ReasonUnknownAgent, Detail: "the node has no agents"}
		}
		asked := c.Transcript
		var err error
		if c.Config, c.Transcript, err = agents.Begin(ctx, c.Config); err != nil {
			return err
		}
		if len(asked) > 0 && asked[0].Kind == content.System { // replaces the agent's prompt
			c.Transcript = nil
		}
		if slices.ContainsFunc(asked, func(it content.Item) bool { return it.Kind != content.User && it.Kind != content.Context }) {
			c.Config.Agent = c.Config.Agent.Claimed() // another prompt, or calls that the agent's model did not make
		}
		c.Transcript = slices.Concat(c.Transcript, asked)
	}
	if err := d.bind(c.Config); err != nil {
		return &commands.Rejection{Reason: commands.ReasonBadAgent, Detail: err.Error()}
	}
	d.agent.Load().register(&c.Config)
	env.Command = c
	return nil
}

// fork completes the command that opens a session as a fork.
func (n *Node) fork(ctx context.Context, at events.EntryRef, c commands.OpenSession) (commands.OpenSession, error) {
	sealed, err := n.cell.IsSealed(ctx, at.Session)
	switch {
	case err != nil:
		return c, err
	case sealed:
		return c, commands.Refuse(commands.ReasonInvalidInput, "%s is sealed: its content stays under its key", at.Session)
	}
	origin, err := n.reader(n.log).ReadTo(ctx, at.Session, at.Seq)
	switch {
	case errors.Is(err, journal.ErrDamaged), errors.Is(err, events.ErrUnknownKind):
		return c, commands.Refuse(commands.ReasonBadTranscript, "%v", err)
	case err != nil:
		return c, err
	}
	if c, err = session.Fork(c, origin.State, origin.Head); err != nil {
		return c, err
	}
	raw, err := json.Marshal([][]content.Item{c.Transcript, c.Input})
	if err == nil { // no entry of the fork names its files yet, and the origin may be deleted
		err = n.cell.Blobs().Renew(ctx, raw)
	}
	last := journal.Record{}
	if err == nil {
		last, err = n.cell.Journal().Last(ctx, at.Session)
	}
	if d, gone := events.DeletionOf(last.Entry); gone {
		return c, commands.Refuse(commands.ReasonDeleted, "session %s %s", at.Session, d)
	}
	return c, err
}

// modelKey identifies a model by its name and a digest of its data.
type modelKey struct {
	name string
	data [sha256.Size]byte
}

// openModel opens each model once for all sessions that name it with the same data.
func (n *Node) openModel(name string, data []byte) (model.Model, error) {
	return n.models.Get(modelKey{name, sha256.Sum256(data)}, func() (model.Model, error) { return n.cfg.Models(name, data) })
}

// codeNotHere is the code of a failed model call that another node may be able to make.
const codeNotHere = "model_not_here"

// errNotHere ends a driver whose session needs another node.
var errNotHere = errors.New("the session's model cannot be opened on this node")

// unopened reports a model that cannot be opened. If another node may be able to open it, the failure is
// temporary: the session is handed over, and the call is retried there until its attempts are used up.
func (d *driver) unopened(e loop.CallModel, err error) commands.Command {
	failed := commands.ReportModelFailed{
		ModelCall: e.ModelCall, Class: content.ClassInvalid, Code: "unknown_model", Message: err.Error(),
	}
	if other, ok := errors.AsType[elsewhere](err); ok && other.Elsewhere() {
		d.log.Warn("model cannot be opened on this node", zap.Error(err))
		failed.Class, failed.Code = content.ClassServer, codeNotHere
		failed.Message = "node " + d.node.cfg.Name + ": " + failed.Message
	}
	return failed
}

// elsewhere is an error of Config.Models that may report that another node can open the model.
type elsewhere interface {
	error
	Elsewhere() bool
}

// notHere reports whether a command says that the session must move to another node, and there is still work
// to do.
func (d *driver) notHere(c commands.Command) bool {
	f, ok := c.(commands.ReportModelFailed)
	return ok && f.Code == codeNotHere && d.State.Turn != nil
}
