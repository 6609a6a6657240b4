package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/policy/memory"
	"github.com/turnlog/turnlog/tool"
)

// agentFlags say of which agent a new session is, and what it is told of the folder that it
// works in.
type agentFlags struct {
	agent    string
	agentsMD *cli.Choice
}

func (f *agentFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.agent, "agent", "", "agent of a new session: its `file`, or its name in a deployment; see \"turnlog agents\"")
	f.agentsMD = cli.NewChoice("none", "nearest", "all")
	f.agentsMD.Register(cmd, "agents-md", "", "which AGENTS.md of --root and the folders above it a new session is told; default: as the agent says, else none")
}

// agentOf is the agent of a session that is about to begin.
type agentOf struct {
	definition *agentfile.Definition // nil: none, or one that only the nodes know
	folder     string                // of the definition's file
	find       agentfile.FindFunc    // those that it delegates to
	hooks      bool                  // those of every agent run here, not only those of the definition and of whom it delegates to
	agentsMD   string                // in place of what the definition says; "": as that says
}

// load reads the file that the flags name. For a name the reference alone is returned.
func (f *agentFlags) load(a *app, local bool) (*agentfile.Definition, *events.AgentRef, error) {
	switch {
	case f.agent == "":
		return nil, nil, nil
	case agentfile.IsFile(f.agent):
		d, err := a.loadAgent(f.agent)
		if err != nil {
			return nil, nil, err
		}
		ref, err := d.Ref()
		return d, ref, err
	case local:
		return nil, nil, usageError("--agent %s: in this process name a file, such as %s.yaml", f.agent, f.agent)
	}
	return nil, &events.AgentRef{Name: f.agent}, nil
}

// surrounded is a definition with what the command line says of its surroundings.
func (o agentOf) surrounded(d *agentfile.Definition) *agentfile.Definition {
	var out agentfile.Definition
	if d != nil {
		out = *d
	}
	if o.agentsMD == "" {
		return &out
	}
	var told agentfile.Context
	if out.Context != nil {
		told = *out.Context
	}
	told.AgentsMD, out.Context = o.agentsMD, &told
	return &out
}

// host makes the agents of the sessions of this process's node.
func (o agentOf) host(l local, cell *jetstream.Cell) agentfile.Host {
	return agentfile.Host{
		Find: published(cell), Models: l.models, Notes: cell.Memory(), Commands: o.definition != nil || o.hooks, Folder: o.folder, Root: l.tools.Root,
		Sources: func(d *agentfile.Definition) []memory.Source { return o.surrounded(d).Sources(l.tools.Root) },
	}
}

// effects are what tasks of sessions without an agent are told of.
func (o agentOf) effects(root string) engine.Config {
	if sources := o.surrounded(nil).Sources(root); len(sources) > 0 {
		return engine.Config{Memory: memory.Plan(nil, sources...)}
	}
	return engine.Config{}
}

// instructions are what a session is told of the folder.
func (o agentOf) instructions(root string) ([]content.Item, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, usageError("--root %s: %w", root, err)
	}
	return o.surrounded(o.definition).Instructions(abs)
}

// all are the agent and those that it delegates to.
func (o agentOf) all(ctx context.Context) (own, others []*agentfile.Definition, err error) {
	if o.definition == nil {
		return nil, nil, nil
	}
	own = []*agentfile.Definition{o.definition}
	others, err = agentfile.Delegates(ctx, o.find, o.definition)
	if err != nil {
		err = usageError("%w", err)
	}
	return own, others, err
}

// prepare gives the worker of this process what the agents need before its tools are opened.
func (o agentOf) prepare(ctx context.Context, l *local) error {
	own, others, err := o.all(ctx)
	if err != nil || own == nil {
		return err
	}
	if o.definition.Gate != nil {
		l.tools.RunGates()
	}
	servers, err := agentfile.Servers(slices.Concat(own, others)...)
	if err != nil {
		return usageError("%w", err)
	}
	l.tools.AddServers(servers...)
	return nil
}

// sources are the tools that the agents bring beside those of MCP servers: skills, and
// those that delegate.
func (o agentOf) sources(ctx context.Context, l local, d *cli.Cell) ([]tool.Source, error) {
	own, others, err := o.all(ctx)
	if err != nil || own == nil {
		return nil, err
	}
	var out []tool.Source
	skills, err := agentfile.Skills(l.tools.Root, slices.Concat(own, others)...)
	if err != nil {
		return nil, usageError("%w", err)
	}
	if skills != nil {
		out = append(out, skills)
	}
	if len(others) == 0 {
		return out, nil
	}
	c, err := client.Open(d.Conn, d.Namespace(), client.WithLogger(l.log), client.WithName("turnlog-agents"))
	if err != nil {
		return nil, err
	}
	tools, err := agentfile.Delegations(func(d *agentfile.Definition) (tool.Tool, error) {
		return l.delegation(c, d)
	}, others...)
	if err != nil {
		return nil, usageError("%w", err)
	}
	return append(out, tools), nil
}

// delegation is the tool with which others delegate to an agent: in sessions of the
// deployment, with the definition as it is now.
func (l local) delegation(c *client.Client, d *agentfile.Definition) (tool.Tool, error) {
	ref, err := d.Ref()
	if err != nil {
		return nil, err
	}
	child := client.Options{Config: events.Config{Agent: ref, Model: d.ModelName()}}
	if child.Config.Model == "" {
		child.Config.Model, child.Config.ModelData = l.model.name, l.model.data
	} else if child.Config.ModelData, err = modelData(l.app.models().In(l.agent.folder), child.Config.Model, true); err != nil {
		return nil, fmt.Errorf("agent %s: %w", d.Name, err)
	}
	return c.Tool(agentfile.ToolOf(d.Name), d.Purpose(), child)
}

// published finds agents in the bucket of a deployment.
func published(cell *jetstream.Cell) agentfile.FindFunc {
	return func(ctx context.Context, name, version string) (*agentfile.Definition, error) {
		a, err := cell.Agents().Get(ctx, name, version)
		if errors.Is(err, jetstream.ErrNoAgent) {
			return nil, fmt.Errorf("agent %q: %w: nobody has published it", name, agentfile.ErrUnknown)
		}
		if err != nil {
			return nil, err
		}
		return agentfile.Parse(name, a.Data, nil)
	}
}

// busyWord is what the agent of a session does with input that comes while a turn is open;
// "": it does not say.
func busyWord(c events.Config) string {
	d, err := agentfile.Recorded(c)
	if err != nil || d == nil {
		return ""
	}
	return d.OnBusy
}

// agentReport is the agent of a session, in reports.
type agentReport struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

func agentReportOf(c events.Config) *agentReport {
	if c.Agent == nil {
		return nil
	}
	return &agentReport{Name: c.Agent.Name, Version: c.Agent.Version}
}
