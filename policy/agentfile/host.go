package agentfile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/policy/memory"
)

// MaxData is how large a definition may be that a session holds, in bytes of its
// canonical form.
const MaxData = 64 << 10

// ErrUnknown is returned by a [FindFunc] for an agent that is not there.
var ErrUnknown = errors.New("no such agent")

// FindFunc finds an agent by its name. An empty version is the newest. It returns
// ErrUnknown if there is none.
type FindFunc func(ctx context.Context, name, version string) (*Definition, error)

// Host makes agents for a node of a deployment: give it to actor.Config.Agents. It is
// immutable.
type Host struct {
	Find    FindFunc                                            // nil: sessions have to bring their definition
	Models  func(name string, data []byte) (model.Model, error) // of summaries; required
	Notes   memory.Store                                        // what agents with a memory remember; nil: nothing
	Sources func(*Definition) []memory.Source                   // what planning is told of beside; nil: nothing

	// Own reports whether a definition of that name and version is in a folder of agent
	// files that whoever started the node has given it. The hooks of such agents run here,
	// and on every other node of the deployment. Nil: it has none.
	Own func(ctx context.Context, name, version string) bool
	// Data returns what every node needs to open the model that an agent of that folder
	// names: a script that is there, say. Nil: nothing.
	Data func(model string) ([]byte, error)
	// Commands lets the hooks of every agent run here, whoever wrote it.
	Commands bool
	// Folder is where hooks begin, that of the agent files; "": where the process is.
	Folder string
	// Root is the folder that agents work in, if the node sees it; "": it does not.
	Root string
}

// Begin completes the configuration of a session that is about to be opened and names
// an agent: it holds all that the definition says, and the definition. The items are what
// its transcript begins with. What the opener asks for beside the agent counts as
// [Definition.Merge] says. It returns a *loop.Rejection if that is not possible.
func (h Host) Begin(ctx context.Context, asked events.Config) (events.Config, []content.Item, error) {
	d, err := h.definition(ctx, *asked.Agent)
	problems, bad := errors.AsType[Problems](err)
	switch {
	case errors.Is(err, ErrUnknown):
		return asked, nil, &loop.Rejection{Reason: loop.ReasonUnknownAgent, Detail: err.Error()}
	case bad:
		return asked, nil, &loop.Rejection{Reason: loop.ReasonBadAgent, Detail: problems.Error()}
	case err != nil:
		return asked, nil, err
	}
	c, err := d.Merge(asked)
	switch {
	case err != nil:
		return asked, nil, &loop.Rejection{Reason: loop.ReasonBadAgent, Detail: err.Error()}
	case asked.Agent.Version != "" && asked.Agent.Version != c.Agent.Version:
		return asked, nil, &loop.Rejection{Reason: loop.ReasonBadAgent, Detail: fmt.Sprintf(
			"agent %s is of version %s, not %s", d.Name, c.Agent.Version, asked.Agent.Version)}
	case len(c.Agent.Data) > MaxData:
		return asked, nil, &loop.Rejection{Reason: loop.ReasonTooLarge, Detail: fmt.Sprintf(
			"the definition of agent %s has %d bytes, at most %d fit into a session", d.Name, len(c.Agent.Data), MaxData)}
	case c.Model == "":
		return asked, nil, &loop.Rejection{Reason: loop.ReasonBadAgent, Detail: "agent " + d.Name + " names no model: the session has to"}
	}
	c.Agent.Local = h.Own != nil && h.Own(ctx, d.Name, c.Agent.Version)
	if err := h.mayRun(d, c.Agent); err != nil {
		return asked, nil, &loop.Rejection{Reason: loop.ReasonBadAgent, Detail: err.Error()}
	}
	if c.Agent.Local && h.Data != nil && asked.Model == "" {
		if c.ModelData, err = h.Data(c.Model); err != nil {
			return asked, nil, &loop.Rejection{Reason: loop.ReasonBadAgent, Detail: fmt.Sprintf("agent %s: model %s: %v", d.Name, c.Model, err)}
		}
	}
	return c, d.Prompt(), nil
}

// mayRun returns an error if the agent has hooks and nobody who answers for this machine
// has said that they run on it.
func (h Host) mayRun(d *Definition, ref *events.AgentRef) error {
	if len(d.Hooks) == 0 || ref.Local || h.Commands {
		return nil
	}
	return fmt.Errorf("agent %s has hooks, and this node runs commands of agents in its own folder only: "+
		"put the file there (driver-node --agents), or let the node run those of every agent (--agent-hooks)", d.Name)
}

// definition is the one that comes with the reference, or the one that it names.
func (h Host) definition(ctx context.Context, ref events.AgentRef) (*Definition, error) {
	switch {
	case len(ref.Data) > MaxData || len(ref.Data) > 0 && !json.Valid(ref.Data): // YAML could unfold to more than a node has room for
		return nil, Problems{{File: ref.Name, Message: fmt.Sprintf("a definition that comes along is JSON of at most %d bytes", MaxData)}}
	case len(ref.Data) > 0:
		return Parse(ref.Name, ref.Data, nil)
	case h.Find == nil:
		return nil, fmt.Errorf("agent %q: %w: this node knows none by name", ref.Name, ErrUnknown)
	}
	return h.Find(ctx, ref.Name, ref.Version)
}

// Prompt is the system prompt, as what a transcript begins with; nil: none.
func (d *Definition) Prompt() []content.Item {
	if d.System == "" {
		return nil
	}
	return []content.Item{content.SystemText(d.System)}
}

// Merge is the configuration of a session of the agent whose opener asks for something
// beside: another model counts in place of the agent's; rules and routes count before the
// agent's, but a tool that the agent denies is not offered; of limits the tighter count.
// Everything else is for the agent to say: it returns an error if that is asked for.
func (d *Definition) Merge(asked events.Config) (events.Config, error) {
	switch {
	case asked.Tools != nil, asked.MaxParallel != 0, asked.FailRun, asked.Retry != (events.Retry{}),
		asked.Cache != nil, asked.Output != nil, asked.ApprovalTTL != 0:
		return asked, fmt.Errorf("agent %s: beside an agent a session may ask for a model, rules, routes and limits only", d.Name)
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
	c.Rules, c.Routes = slices.Concat(asked.Rules, c.Rules), slices.Concat(asked.Routes, c.Routes)
	c.Limits, c.SessionLimits = loop.Tighter(asked.Limits, c.Limits), loop.Tighter(asked.SessionLimits, c.SessionLimits)
	c.Digest, c.Catalog, c.Hooks, c.Mutators, c.NotifyOnly = asked.Digest, asked.Catalog, asked.Hooks, asked.Mutators, asked.NotifyOnly
	return c, nil
}

// Ref is the definition as a session holds it.
func (d *Definition) Ref() (*events.AgentRef, error) {
	data, err := d.Encode()
	if err != nil {
		return nil, err
	}
	version, err := d.Version()
	if err != nil {
		return nil, err
	}
	return &events.AgentRef{Name: d.Name, Version: version, Data: data}, nil
}

// Recorded is the definition that a session holds; nil if it is of no agent.
func Recorded(c events.Config) (*Definition, error) {
	if c.Agent == nil {
		return nil, nil //nolint:nilnil // most sessions are of none
	}
	r := &reader{file: c.Agent.Name, kept: true}
	return r.definition(c.Agent.Data)
}

// Equip makes what the agent of a session with that configuration brings to its host.
func (h Host) Equip(c events.Config) (engine.Equipment, error) {
	var e engine.Equipment
	d, err := Recorded(c)
	if err != nil || d == nil {
		return e, err
	}
	if err := h.mayRun(d, c.Agent); err != nil {
		return e, err
	}
	if e.Hooks, err = d.Guards(); err != nil {
		return e, err
	}
	commands, err := d.Commands(h.Folder, h.Root)
	if err != nil {
		return e, err
	}
	e.Hooks = append(e.Hooks, commands...)
	e.Terms = d.Terms()
	if e.Policy, err = d.policy(); err != nil {
		return e, err
	}
	if e.Mutators, err = d.Mutators(func(name string) (model.Model, error) {
		if name == d.Model {
			return h.onDemand(c.Model, c.ModelData), nil
		}
		return h.onDemand(name, nil), nil
	}); err != nil {
		return e, err
	}
	task := d.Task("")
	e.Gate, e.Retries = task.Gate, task.MaxRetries
	var sources []memory.Source
	if h.Sources != nil {
		sources = h.Sources(d)
	}
	e.Memory, err = d.recall(h.Notes, sources)
	return e, err
}

// recall is what planning a task of the agent hears, and where the task leaves its note;
// nil: the host's own.
func (d *Definition) recall(notes memory.Store, sources []memory.Source) (memory.Keeper, error) {
	var keeper memory.Keeper
	if m := d.Memory; m != nil && notes != nil {
		scope := d.Name
		if m.Scope == scopeAll {
			scope = ""
		}
		kept, err := memory.New(memory.Config{Store: notes, Scope: scope, TTL: span(m.TTL)})
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", d.Name, err)
		}
		keeper = kept
	}
	if keeper == nil && len(sources) == 0 {
		return nil, nil //nolint:nilnil // it brings none
	}
	return memory.Plan(keeper, sources...), nil
}

// onDemand is a model that is opened when it is called first: that a node lacks the key
// of a model must not hold up sessions that never come to call it.
func (h Host) onDemand(name string, data []byte) model.Model {
	return &onDemand{name: name, open: sync.OnceValues(func() (model.Model, error) { return h.Models(name, data) })}
}

type onDemand struct {
	name string
	open func() (model.Model, error)
}

// Name is the model's.
func (m *onDemand) Name() string { return m.name }

// Capabilities are the model's; none if it cannot be opened.
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
