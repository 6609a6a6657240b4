package agentfile

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/policy/notes"
)

// MaxData is the size limit of a definition in a session, in bytes of its canonical form.
const MaxData = 64 << 10

// ErrUnknown is returned by a [FindFunc] for an agent that does not exist.
var ErrUnknown = errors.New("no such agent")

// FindFunc finds an agent by name; an empty version is the newest. It returns ErrUnknown
// if there is none.
type FindFunc func(ctx context.Context, name, version string) (*Definition, error)

// Host makes agents for a node of a deployment, as actor.Config.Agents. It is immutable.
type Host struct {
	Find    FindFunc                                            // nil: sessions must send their definition
	Models  func(name string, data []byte) (model.Model, error) // for summaries; required
	Notes   notes.Store                                         // nil: agents keep no notes
	Sources func(*Definition) []notes.Source                    // additional sources for planning; nil: none
	Model   string                                              // the model for agents and sessions that name none; "": one of them must

	// Own reports whether the node's operator provides this version of an agent, in a
	// folder of agent files. The hooks of such agents run here and on every other node.
	// Nil: none.
	Own func(ctx context.Context, name, version string) bool
	// Data returns what every node needs to open the model of an agent of that folder,
	// such as a script. Nil: nothing.
	Data func(model string) ([]byte, error)
	// Commands runs the hooks of every agent here, not only those of Own.
	Commands bool
	// Folder is the folder of the agent files, where hooks start; "": the working directory.
	Folder string
	// Root is the folder that agents work in, if the node has it; "": it does not.
	Root string
}

// Begin completes the configuration of a session that names an agent and is about to be
// opened, as [Definition.Merge] does. The items are the beginning of its transcript. It
// returns a *commands.Rejection if the agent cannot be used.
func (h Host) Begin(ctx context.Context, asked events.Config) (events.Config, []content.Item, error) {
	reject := func(reason, format string, args ...any) (events.Config, []content.Item, error) {
		return asked, nil, &commands.Rejection{Reason: reason, Detail: fmt.Sprintf(format, args...)}
	}
	d, err := h.definition(ctx, *asked.Agent)
	problems, bad := errors.AsType[Problems](err)
	switch {
	case errors.Is(err, ErrUnknown):
		return reject(commands.ReasonUnknownAgent, "%v", err)
	case bad:
		return reject(commands.ReasonBadAgent, "%v", problems)
	case err != nil:
		return asked, nil, err
	}
	c, err := d.Merge(asked)
	if err != nil {
		return reject(commands.ReasonBadAgent, "%v", err)
	}
	c.Model = cmp.Or(c.Model, h.Model)
	switch {
	case asked.Agent.Version != "" && asked.Agent.Version != c.Agent.Version:
		return reject(commands.ReasonBadAgent, "agent %s has version %s, not %s", d.Name, c.Agent.Version, asked.Agent.Version)
	case len(c.Agent.Data) > MaxData:
		return reject(commands.ReasonTooLarge, "the definition of agent %s has %d bytes, at most %d fit into a session", d.Name, len(c.Agent.Data), MaxData)
	case c.Model == "":
		return reject(commands.ReasonBadAgent, "agent %s has no model, so the session needs one, as with turnlog run --model", d.Name)
	}
	c.Agent.Local = h.Own != nil && h.Own(ctx, d.Name, c.Agent.Version)
	known := c.Agent.Local || len(asked.Agent.Data) == 0 || h.knows(ctx, *c.Agent)
	same := asked.Model == "" || asked.Model == d.ModelName() && len(asked.ModelData) == 0
	c.Agent.Known = known && same && !slices.ContainsFunc(asked.Rules, widens)
	if err := h.mayRun(d, c.Agent); err != nil {
		return reject(commands.ReasonBadAgent, "%v", err)
	}
	if c.Agent.Local && h.Data != nil && asked.Model == "" {
		if c.ModelData, err = h.Data(c.Model); err != nil {
			return reject(commands.ReasonBadAgent, "agent %s: model %s: %v", d.Name, c.Model, err)
		}
	}
	return c, d.Prompt(), nil
}

// widens reports whether a rule of an opener may allow calls that the agent's own rules ask about.
func widens(r events.Rule) bool { return r.Action == events.RuleAllow || r.Action == events.RuleGuard }

// knows reports whether the deployment has this version of an agent. A definition that an
// opener sends under the name of another agent does not get that agent's permissions.
func (h Host) knows(ctx context.Context, sent events.AgentRef) bool {
	if h.Find == nil {
		return false
	}
	d, err := h.Find(ctx, sent.Name, sent.Version)
	if err != nil {
		return false
	}
	data, err := d.Encode()
	return err == nil && bytes.Equal(data, sent.Data)
}

// mayRun returns an error if the agent has hooks and the node's operator has not allowed
// them.
func (h Host) mayRun(d *Definition, ref *events.AgentRef) error {
	if len(d.Hooks) == 0 || ref.Local || h.Commands {
		return nil
	}
	return fmt.Errorf("agent %s has hooks, and this node runs only hooks of agents in its own folder: "+
		"put the file there (driver-node --agents), or let the node run those of every agent (--agent-hooks)", d.Name)
}

// definition returns the definition in the reference, or the one that it names.
func (h Host) definition(ctx context.Context, ref events.AgentRef) (*Definition, error) {
	switch {
	case len(ref.Data) > MaxData || len(ref.Data) > 0 && !json.Valid(ref.Data): // YAML could expand to more than a node can hold
		return nil, Problems{{File: ref.Name, Message: fmt.Sprintf("a definition in a request is JSON of at most %d bytes", MaxData)}}
	case len(ref.Data) > 0:
		return Parse(ref.Name, ref.Data, nil)
	case h.Find == nil:
		return nil, fmt.Errorf("agent %q: %w: this node finds no agents by name", ref.Name, ErrUnknown)
	}
	return h.Find(ctx, ref.Name, ref.Version)
}

// Prompt returns the system prompt as the beginning of a transcript; nil: none.
func (d *Definition) Prompt() []content.Item {
	if d.System == "" {
		return nil
	}
	return []content.Item{content.SystemText(d.System)}
}

// Merge returns the configuration of a session of the agent with the settings of its opener. The
// opener's model and patience replace the agent's. Its rules and routes come before the agent's, but
// tools that the agent denies are not offered. The tighter limits count. Merge returns an error if
// the opener sets anything else.
func (d *Definition) Merge(asked events.Config) (events.Config, error) {
	if asked.Tools != nil || asked.MaxParallel != 0 || asked.FailRun || asked.Retry != (events.Retry{ModelPatience: asked.Retry.ModelPatience}) ||
		asked.Cache != nil || asked.Output != nil || asked.ApprovalTTL != 0 {
		return asked, fmt.Errorf("agent %s: a session may override only the model, its patience, rules, routes and limits", d.Name)
	}
	c, err := d.Session()
	if err != nil {
		return asked, err
	}
	if c.Agent, err = d.Ref(); err != nil {
		return asked, err
	}
	if asked.Model != "" {
		c.Model, c.ModelData = asked.Model, asked.ModelData
	}
	c.Retry.ModelPatience = cmp.Or(asked.Retry.ModelPatience, c.Retry.ModelPatience)
	c.Rules, c.Routes = slices.Concat(asked.Rules, c.Rules), slices.Concat(asked.Routes, c.Routes)
	c.Limits, c.SessionLimits = asked.Limits.And(c.Limits), asked.SessionLimits.And(c.SessionLimits)
	c.Digest, c.Catalog, c.Hooks, c.Mutators, c.NotifyOnly = asked.Digest, asked.Catalog, asked.Hooks, asked.Mutators, asked.NotifyOnly
	return c, nil
}

// Recorded returns the definition that a session recorded, or nil if it has no agent. The definition
// was checked when the session opened: stricter checks of a later release must not stop the session.
func Recorded(c events.Config) (*Definition, error) {
	if c.Agent == nil {
		return nil, nil //nolint:nilnil // most sessions have none
	}
	d, err := decode(c.Agent.Data)
	if err != nil {
		return nil, fmt.Errorf("agent %s: recorded definition: %w", c.Agent.Name, err)
	}
	return d, nil
}

// Equip returns the hooks, mutators, policies and notes that a session's agent adds to its
// host.
func (h Host) Equip(c events.Config) (engine.Equipment, error) {
	var e engine.Equipment
	d, err := Recorded(c)
	if err != nil || d == nil {
		return e, err
	}
	if err := h.mayRun(d, c.Agent); err != nil {
		return e, err
	}
	if e.Hooks, err = d.guards(); err != nil {
		return e, err
	}
	commands, err := d.commands(h.Folder, h.Root)
	if err != nil {
		return e, err
	}
	e.Hooks = append(e.Hooks, commands...)
	e.Terms = d.Terms()
	if d.Permissions != nil {
		if e.Policy, err = json.Marshal(d.Permissions); err != nil {
			return e, fmt.Errorf("agent %s: permissions: %w", d.Name, err)
		}
	}
	if e.Mutators, err = d.mutators(func(name string) (model.Model, error) {
		if name == d.Model {
			return h.onDemand(c.Model, c.ModelData), nil
		}
		return h.onDemand(name, nil), nil
	}); err != nil {
		return e, err
	}
	task := d.Task("")
	e.Verifier, e.Retries = task.Verifier, task.MaxRetries
	var sources []notes.Source
	if h.Sources != nil {
		sources = h.Sources(d)
	}
	e.Notes, err = d.recall(h.Notes, sources)
	return e, err
}

// recall returns the notes and sources for planning a task, or nil for the host's.
func (d *Definition) recall(store notes.Store, sources []notes.Source) (notes.Keeper, error) {
	var keeper notes.Keeper
	if m := d.Memory; m != nil && store != nil {
		scope := d.Name
		if m.Scope == "all" {
			scope = ""
		}
		kept, err := notes.New(notes.Config{Store: store, Scope: scope, TTL: span(m.TTL)})
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", d.Name, err)
		}
		keeper = kept
	}
	if keeper == nil && len(sources) == 0 {
		return nil, nil //nolint:nilnil // it adds none
	}
	return notes.Plan(keeper, sources...), nil
}

// onDemand returns a model that opens on its first call. A node that lacks the key of a model must
// still run sessions that never call it.
func (h Host) onDemand(name string, data []byte) model.Model {
	return &onDemand{name: name, open: sync.OnceValues(func() (model.Model, error) { return h.Models(name, data) })}
}

type onDemand struct {
	name string
	open func() (model.Model, error)
}

// Name returns the model's name.
func (m *onDemand) Name() string { return m.name }

// Capabilities returns the model's capabilities, or none if it cannot be opened.
func (m *onDemand) Capabilities() model.Capabilities {
	opened, err := m.open()
	if err != nil {
		return model.Capabilities{}
	}
	return opened.Capabilities()
}

// Call calls the model.
func (m *onDemand) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	opened, err := m.open()
	if err != nil {
		return model.Reply{}, &model.Error{Class: content.ClassInvalid, Code: "unknown_model", Message: err.Error()}
	}
	return opened.Call(ctx, r, emit)
}
