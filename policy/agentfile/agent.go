package agentfile

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/policy/memory"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// Kit is what a program gives to the agents that it runs in its own process. Only Models is
// required.
type Kit struct {
	Models      func(name string, data []byte) (model.Model, error) // such as the Open of a registry
	Tools       []tool.Source                                       // of which each agent uses those that its file names; those of its MCP servers, too
	Permissions tool.Permissions                                    // nil: what the agents' files say is all
	Root        string                                              // the folder that they work in; "": the working directory
	Folder      string                                              // that of their files, where their hooks begin; "": the working directory
	Notes       memory.Store                                        // nil: each agent with a memory has one that ends with the process
	Find        FindFunc                                            // the agents that they delegate to; nil: none
	Journal     journal.Journal                                     // nil: one in memory for each
}

// Agent returns what package agent needs to run the agent in this process. The caller may
// fill in more, such as observers and an approver. A task of it is started with what
// [Definition.Task] says.
func (d *Definition) Agent(ctx context.Context, k Kit) (agent.Config, error) {
	return d.agent(ctx, k, nil)
}

// agent is Agent for one that others delegate to, by name.
func (d *Definition) agent(ctx context.Context, k Kit, callers []string) (agent.Config, error) {
	if slices.Contains(callers, d.Name) {
		return agent.Config{}, fmt.Errorf("agents delegate in a circle: %s → %s", strings.Join(callers, " → "), d.Name)
	}
	c, err := d.Merge(events.Config{})
	if err != nil {
		return agent.Config{}, err
	}
	out := agent.Config{
		Agent: c.Agent, SystemPrompt: d.System, Offered: c.Tools, Tools: k.Tools, Permissions: k.Permissions, Rules: c.Rules, Routes: c.Routes,
		MaxParallel: c.MaxParallel, Limits: c.Limits, SessionLimits: c.SessionLimits, Retry: c.Retry, Cache: c.Cache,
		Output: c.Output, ApprovalTTL: c.ApprovalTTL, Root: k.Root, Journal: k.Journal,
	}
	if len(c.Routes) > 0 || c.MaxParallel > 1 || c.MaxParallel < 0 {
		out.TaskManager = task.Async(task.AsyncConfig{})
	}
	if c.FailRun {
		out.OnToolError = agent.FailRun
	}
	if out.Model, err = k.Models(c.Model, nil); err != nil {
		return out, fmt.Errorf("agent %s: %w", d.Name, err)
	}
	if k.Notes == nil {
		k.Notes = memory.NewLocal(nil)
	}
	host := Host{
		Models: k.Models, Notes: k.Notes, Sources: func(d *Definition) []memory.Source { return d.Sources(k.root()) },
		Commands: true, Folder: k.Folder, Root: k.Root, // whoever made the kit has chosen the agent
	}
	var with engine.Equipment
	if with, err = host.Equip(c); err != nil {
		return out, err
	}
	out.Hooks, out.Mutators, out.Memory = with.Hooks, with.Mutators, with.Memory
	if out.Transcript, err = d.Instructions(k.root()); err != nil {
		return out, err
	}
	if err := d.own(ctx, k, callers, &out); err != nil {
		return out, err
	}
	return out, d.restrict(k, &out)
}

// restrict puts the tools under the agent's terms, and its calls under what it says that
// they may do.
func (d *Definition) restrict(k Kit, out *agent.Config) error {
	for i, s := range out.Tools {
		out.Tools[i] = tool.Under(s, d.Terms()...)
	}
	policy, err := d.Permissions.In(k.root())
	if err != nil {
		return fmt.Errorf("agent %s: permissions: %w", d.Name, err)
	}
	switch {
	case policy == nil:
	case out.Permissions == nil:
		out.Permissions = policy
	default:
		out.Permissions = permission.All(out.Permissions, policy)
	}
	return nil
}

func (k Kit) root() string {
	if k.Root == "" {
		return "."
	}
	return k.Root
}

// own adds the tools that the agent brings itself: its skills and the agents that it
// delegates to.
func (d *Definition) own(ctx context.Context, k Kit, callers []string, out *agent.Config) error {
	out.Tools = slices.Clone(out.Tools)
	skills, err := Skills(k.root(), d)
	if err != nil {
		return err
	}
	if skills != nil {
		out.Tools = append(out.Tools, skills)
	}
	if len(d.Agents) == 0 {
		return nil
	}
	others := make([]*Definition, len(d.Agents))
	for i, name := range d.Agents {
		if k.Find == nil {
			return fmt.Errorf("agent %s delegates: agent %q: %w: the kit finds none", d.Name, name, ErrUnknown)
		}
		if others[i], err = k.Find(ctx, name, ""); err != nil {
			return fmt.Errorf("agent %s delegates: %w", d.Name, err)
		}
	}
	tools, err := Delegations(func(other *Definition) (tool.Tool, error) {
		c, err := other.agent(ctx, k, append(slices.Clone(callers), d.Name))
		if err != nil {
			return nil, err
		}
		a, err := agent.New(c)
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", other.Name, err)
		}
		return a.Tool(ToolOf(other.Name), other.Purpose())
	}, others...)
	if err != nil {
		return fmt.Errorf("agent %s: %w", d.Name, err)
	}
	out.Tools = append(out.Tools, tools)
	return nil
}

// Delegations is the source of the tools with which others delegate to these agents. How
// such a tool is made is for the host to say.
func Delegations(tend func(*Definition) (tool.Tool, error), to ...*Definition) (tool.Source, error) {
	var tools []tool.Tool
	for _, d := range to {
		t, err := tend(d)
		if err != nil {
			return nil, err
		}
		tools = append(tools, t)
	}
	return tool.NewRegistry("agents", tools...)
}
