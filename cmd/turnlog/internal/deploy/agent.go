package deploy

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/memory"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/policy/notes"
)

// Agent is the agent of a session that is about to start in this process. The zero value
// is none.
type Agent struct {
	Folder string // of the definition's file

	definition *agentfile.Definition // nil: none, or one that only the nodes know
	agentsMD   string                // replaces what the definition says, if not ""
	hooks      bool                  // run the hooks of all agents, not only those of the definition and its delegates
}

// AgentOf returns the agent of the flags.
func AgentOf(f *flags.Session, d *agentfile.Definition, given func(flag string) bool) Agent {
	a := Agent{definition: d}
	if d != nil {
		a.Folder = filepath.Dir(f.Agent)
	}
	if given("agents-md") {
		a.agentsMD = f.AgentsMD.String()
	}
	return a
}

// placed returns a definition with the context settings of the command line.
func (a Agent) placed(d *agentfile.Definition) *agentfile.Definition {
	out := *cmp.Or(d, &agentfile.Definition{})
	if a.agentsMD != "" {
		c := *cmp.Or(out.Context, &agentfile.Context{})
		c.AgentsMD, out.Context = a.agentsMD, &c
	}
	return &out
}

// host returns the agents of the node in this process.
func (a Agent) host(l Local, cell *jetstream.Cell) agentfile.Host {
	return agentfile.Host{
		Find: toolset.Published(cell), Models: l.models, Model: flags.Models(l.app).DefaultName(), Notes: memory.Of(cell), Commands: a.hooks, Folder: a.Folder, Root: l.tools.Root,
		Own:     func(context.Context, string, string) bool { return a.definition != nil }, // the user chose the file
		Sources: func(d *agentfile.Definition) []notes.Source { return a.placed(d).Sources(l.tools.Root) },
	}
}

// effects configures tasks of sessions without an agent.
func (a Agent) effects(root string) engine.Config {
	if sources := a.placed(nil).Sources(root); len(sources) > 0 {
		return engine.Config{Notes: notes.Plan(nil, sources...)}
	}
	return engine.Config{}
}

// Instructions returns the instructions of a session that works in the folder root.
func (a Agent) Instructions(root string) ([]content.Item, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, cli.Usage("--root %s: %w", root, err)
	}
	return a.placed(a.definition).Instructions(abs)
}

// agents returns the agent and its delegates.
func (a Agent) agents(ctx context.Context) (out toolset.Agents, err error) {
	if a.definition == nil {
		return out, nil
	}
	if out.Delegates, err = agentfile.Delegates(ctx, agentfile.Folder{Path: a.Folder}.Find, a.definition); err != nil {
		return out, cli.Usage("%w", err)
	}
	out.All = append([]*agentfile.Definition{a.definition}, out.Delegates...)
	return out, nil
}

// modelOf sets the model of the sessions of a delegate, as its definition is now.
func (l Local) modelOf(d *agentfile.Definition, c *events.Config) (err error) {
	c.Model, c.ModelData = l.model.Name, l.model.Data
	if name := d.ModelName(); name != "" {
		c.Model = name
		if c.ModelData, err = flags.ModelData(flags.Models(l.app).In(l.agent.Folder), name, true); err != nil {
			return fmt.Errorf("agent %s: %w", d.Name, err)
		}
	}
	return nil
}
