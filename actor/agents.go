package actor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
)

// Agents makes the agents of sessions: agentfile.Host does. Implementations are safe for
// concurrent use.
type Agents interface {
	// Begin completes the configuration of a session that is about to be opened and names
	// an agent, and returns what its transcript begins with. It returns a *loop.Rejection if
	// such a session cannot be opened.
	Begin(ctx context.Context, asked events.Config) (events.Config, []content.Item, error)
	// Equip makes what the agent of a session with that configuration brings.
	Equip(c events.Config) (engine.Equipment, error)
}

// agentRuntime performs the effects of one agent's sessions, or of sessions without one.
type agentRuntime struct {
	engine.Equipment

	runner *engine.Runner
	own    ownConfig
	digest string // of own
	terms  string // tells its terms from those of others; "": it has none
}

// ownConfig is the part of a session's configuration that the node and the agent decide: the
// hooks and mutators, and the policy that judges calls.
type ownConfig struct {
	Hooks    []events.Registration `json:"hooks,omitempty"`
	Mutators []events.Registration `json:"mutators,omitempty"`
	Policy   string                `json:"policy,omitempty"`
}

func newAgentRuntime(node Config, e engine.Equipment) (*agentRuntime, error) {
	a := &agentRuntime{Equipment: e, runner: engine.NewRunner(node.Effects.With(e))}
	a.own.Hooks, a.own.Mutators = a.runner.Registrations()
	a.own.Policy = node.Policy
	if len(a.own.Hooks) > 0 || len(a.own.Mutators) > 0 || a.own.Policy != "" {
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

// changed is the configuration of a session that comes to this node, or nil if it stays what
// it was.
func (a *agentRuntime) changed(s *loop.State) *events.Config {
	if s.Config.Digest == a.digest {
		return nil
	}
	c := s.Config
	c.Digest, c.Hooks, c.Mutators = a.digest, a.own.Hooks, a.own.Mutators
	return &c
}

// register adds the hooks and mutators of the node and of the agent to those that a client
// names: a client cannot leave any out.
func (a *agentRuntime) register(c *events.Config) {
	c.Digest = a.digest
	c.Hooks, c.Mutators = union(a.own.Hooks, c.Hooks), union(a.own.Mutators, c.Mutators)
}

// union lists own registrations, then the others.
func union(own, others []events.Registration) []events.Registration {
	own = slices.Clip(own)
	for _, r := range others {
		if !slices.ContainsFunc(own, func(o events.Registration) bool { return o.Name == r.Name }) {
			own = append(own, r)
		}
	}
	return own
}

// maxAgents bounds how many agents a node remembers.
const maxAgents = 256

// agentCache makes one runtime for all sessions of a version of an agent.
type agentCache struct {
	node Config
	none *agentRuntime // of sessions without an agent

	mu    sync.Mutex // guards known
	known map[[sha256.Size]byte]*agentRuntime
}

func newAgentCache(c Config) (*agentCache, error) {
	none, err := newAgentRuntime(c, engine.Equipment{})
	return &agentCache{node: c, none: none, known: make(map[[sha256.Size]byte]*agentRuntime)}, err
}

// errUnmade ends a driver whose session is of an agent that cannot be made on its node, such
// as one that a later release wrote down.
var errUnmade = errors.New("the session's agent cannot be made on this node")

// of returns the runtime for sessions with that configuration. It returns errUnmade if there
// can be none on this node.
func (a *agentCache) of(c events.Config) (*agentRuntime, error) {
	if c.Agent == nil {
		return a.none, nil
	}
	if a.node.Agents == nil {
		return nil, fmt.Errorf("%w: it knows no agents", errUnmade)
	}
	key := sha256.Sum256(slices.Concat(c.Agent.Data, []byte("\x00"+c.Model+"\x00"), c.ModelData))
	a.mu.Lock()
	defer a.mu.Unlock()
	if known, ok := a.known[key]; ok {
		return known, nil
	}
	e, err := a.node.Agents.Equip(c)
	if err != nil {
		return nil, fmt.Errorf("%w: agent %s, version %s: %w", errUnmade, c.Agent.Name, c.Agent.Version, err)
	}
	made, err := newAgentRuntime(a.node, e)
	if err != nil {
		return nil, err
	}
	if len(a.known) >= maxAgents {
		clear(a.known)
	}
	a.known[key] = made
	return made, nil
}

// bind gives the driver the runtime of the session's agent. It never changes once the session
// is open.
func (d *driver) bind(c events.Config) error {
	a, err := d.node.agents.of(c)
	if err == nil {
		d.agent = a
	}
	return err
}

// openWithAgent completes the ask that opens a session with the configuration, the transcript
// and the extensions of its agent.
func (d *driver) openWithAgent(ctx context.Context, env *commands.Envelope) error {
	c, ok := env.Command.(commands.OpenSession)
	if !ok || d.State.Opened {
		return nil // or it will be refused
	}
	if c.Config.Agent != nil {
		agents := d.node.cfg.Agents
		if agents == nil {
			return &loop.Rejection{Reason: loop.ReasonUnknownAgent, Detail: "the node knows no agents"}
		}
		asked := c.Transcript
		var err error
		if c.Config, c.Transcript, err = agents.Begin(ctx, c.Config); err != nil {
			return err
		}
		if len(asked) > 0 && asked[0].Kind == content.System { // the opener's prompt, in place of the agent's
			c.Transcript = nil
		}
		c.Transcript = slices.Concat(c.Transcript, asked)
	}
	if err := d.bind(c.Config); err != nil {
		return &loop.Rejection{Reason: loop.ReasonBadAgent, Detail: err.Error()}
	}
	d.agent.register(&c.Config)
	env.Command = c
	return nil
}

// maxModels bounds how many opened models a node remembers.
const maxModels = 256

// models opens each model once for all sessions that name it with the same data.
type models struct {
	opener func(name string, data []byte) (model.Model, error)

	mu    sync.Mutex // guards known
	known map[string]model.Model
}

func (m *models) open(name string, data []byte) (model.Model, error) {
	sum := sha256.Sum256(data)
	key := name + "\x00" + string(sum[:])
	m.mu.Lock()
	defer m.mu.Unlock()
	if found, ok := m.known[key]; ok {
		return found, nil
	}
	opened, err := m.opener(name, data)
	if err != nil {
		return nil, err
	}
	if len(m.known) >= maxModels {
		clear(m.known)
	}
	m.known[key] = opened
	return opened, nil
}

// codeNotHere is the code of a model call whose model this node cannot open, but
// another one may.
const codeNotHere = "model_not_here"

// errNotHere ends a driver whose session is for another node.
var errNotHere = errors.New("the session's model cannot be opened on this node")

// unopened reports a call of a model that cannot be opened. If another node may open
// it, the call has failed for now only: it is tried again, after the session was
// handed over. So it ends with that failure if no node takes it that has the model.
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

// elsewhere is an error of Config.Models that may tell that another node can do it.
type elsewhere interface {
	error
	Elsewhere() bool
}

// notHere reports whether a report says that the session should go to another node,
// and there is still something to do for it.
func (d *driver) notHere(c commands.Command) bool {
	f, ok := c.(commands.ReportModelFailed)
	return ok && f.Code == codeNotHere && d.State.Turn != nil
}
