package actor

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
)

// Agents makes the agents that sessions are of: agentfile.Host does. Implementations are
// safe for concurrent use.
type Agents interface {
	// Begin completes the configuration of a session that is to be opened and names an
	// agent, and says what its transcript begins with. It returns a *loop.Rejection if
	// such a session cannot be opened.
	Begin(ctx context.Context, asked events.Config) (events.Config, []content.Item, error)
	// Equip makes what the agent of a session with that configuration brings.
	Equip(c events.Config) (engine.Equipment, error)
}

// outfit is how a node performs the effects of one agent's sessions, or of those of none.
type outfit struct {
	engine.Equipment

	runner *engine.Runner
	own    ownConfig
	terms  string // tells its terms from those of others; "": it has none
	digest string // of what the node and the agent decide of a session's configuration
}

// maxOutfits bounds how many agents a node remembers.
const maxOutfits = 256

// wardrobe makes one outfit for all sessions of a version of an agent.
type wardrobe struct {
	agents Agents // nil: sessions are of none
	node   Config
	plain  *outfit // of sessions without an agent

	mu    sync.Mutex // guards known
	known map[string]*outfit
}

func newWardrobe(c Config) (*wardrobe, error) {
	w := &wardrobe{agents: c.Agents, node: c, known: make(map[string]*outfit)}
	var err error
	w.plain, err = w.make(engine.Equipment{})
	return w, err
}

func (w *wardrobe) make(e engine.Equipment) (*outfit, error) {
	o := &outfit{Equipment: e, runner: engine.NewRunner(w.node.Effects.With(e))}
	hooks, mutators := o.runner.Registrations()
	o.own = ownConfig{Hooks: hooks, Mutators: mutators, Policy: w.node.Policy}
	var err error
	if o.digest, err = o.own.digest(); err != nil || len(e.Terms) == 0 {
		return o, err
	}
	terms, err := json.Marshal(e.Terms)
	if err != nil {
		return nil, fmt.Errorf("terms of tools: %w", err)
	}
	o.terms = "\x00" + string(terms)
	return o, nil
}

// errUnmade ends a driver whose session is of an agent that cannot be made on its node, as
// one that a later release has written down.
var errUnmade = errors.New("the session's agent cannot be made on this node")

// of returns the outfit for sessions with that configuration. It returns errUnmade if there
// can be none on this node.
func (w *wardrobe) of(c events.Config) (*outfit, error) {
	if c.Agent == nil {
		return w.plain, nil
	}
	if w.agents == nil {
		return nil, fmt.Errorf("%w: it knows no agents", errUnmade)
	}
	sum := sha256.Sum256(slices.Concat(c.Agent.Data, []byte("\x00"+c.Model+"\x00"), c.ModelData))
	key := string(sum[:])
	w.mu.Lock()
	defer w.mu.Unlock()
	if known, ok := w.known[key]; ok {
		return known, nil
	}
	e, err := w.agents.Equip(c)
	if err != nil {
		return nil, fmt.Errorf("%w: agent %s, version %s: %w", errUnmade, c.Agent.Name, c.Agent.Version, err)
	}
	o, err := w.make(e)
	if err != nil {
		return nil, err
	}
	if len(w.known) >= maxOutfits {
		clear(w.known)
	}
	w.known[key] = o
	return o, nil
}

// dress gives the driver what the session's agent brings. That never changes once the
// session is open.
func (d *Driver) dress(c events.Config) error {
	o, err := d.node.wardrobe.of(c)
	if err == nil {
		d.outfit = o
	}
	return err
}

// begins is the ask that opens a session, with what its agent says.
func (d *Driver) begins(ctx context.Context, c commands.OpenSession) (commands.OpenSession, error) {
	if d.state.Opened {
		return c, nil // it will be refused
	}
	if c.Config.Agent != nil {
		if d.node.cfg.Agents == nil {
			return c, &loop.Rejection{Reason: loop.ReasonUnknownAgent, Detail: "the node knows no agents"}
		}
		said := c.Transcript
		var err error
		if c.Config, c.Transcript, err = d.node.cfg.Agents.Begin(ctx, c.Config); err != nil {
			return c, err
		}
		if len(said) > 0 && said[0].Kind == content.System { // the opener's prompt, in place of the agent's
			c.Transcript = nil
		}
		c.Transcript = slices.Concat(c.Transcript, said)
	}
	if err := d.dress(c.Config); err != nil {
		return c, &loop.Rejection{Reason: loop.ReasonBadAgent, Detail: err.Error()}
	}
	return d.outfit.extended(c), nil
}

// gated is the ask that starts a task, with the gate of the session's agent if it brings
// none.
func (d *Driver) gated(c commands.StartTask) commands.StartTask {
	if o := d.outfit; len(c.Spec.Gate) == 0 && !c.Spec.GateFunc && len(o.Gate) > 0 {
		c.Spec.Gate, c.Spec.MaxRetries = o.Gate, o.Retries
	}
	return c
}
