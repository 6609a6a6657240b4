package agentfile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/policy/notes"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// Kit configures agents that run in the caller's process. Only Models is required.
type Kit struct {
	Models      func(name string, data []byte) (model.Model, error) // for example the Open of a registry
	Tools       []tool.Source                                       // each agent uses the tools that its file names, including its MCP servers
	Policy      *permission.Deployment                              // what the program allows them; nil: permission.Default
	Permissions tool.Permissions                                    // nil: only what the agents' files say
	Root        string                                              // the folder they work in; "": the working directory
	Folder      string                                              // the folder of their files, where hooks start; "": the working directory
	Notes       notes.Store                                         // nil: each agent keeps its notes in memory
	Find        FindFunc                                            // finds agents that they delegate to; nil: none
	Journal     journal.Journal                                     // nil: each agent has one in memory
}

// Agent returns the configuration with which package agent runs the agent in this
// process. The caller may add to it, such as observers and an approver. [Definition.Task]
// returns its tasks.
func (d *Definition) Agent(ctx context.Context, k Kit) (agent.Config, error) {
	return d.agent(ctx, k, nil)
}

// agent is Agent for an agent to which callers, by name, delegate.
func (d *Definition) agent(ctx context.Context, k Kit, callers []string) (agent.Config, error) {
	if slices.Contains(callers, d.Name) {
		return agent.Config{}, fmt.Errorf("agents delegate in a circle: %s → %s", strings.Join(callers, " → "), d.Name)
	}
	k.Root = cmp.Or(k.Root, ".")
	c, err := d.Merge(events.Config{})
	if err != nil {
		return agent.Config{}, err
	}
	out := agent.Config{
		Agent: c.Agent, SystemPrompt: d.System, Offered: c.Tools, Tools: k.Tools, Policy: k.Policy, Permissions: k.Permissions, Rules: c.Rules, Routes: c.Routes,
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
		k.Notes = notes.NewLocal()
	}
	host := Host{
		Models: k.Models, Notes: k.Notes, Sources: func(d *Definition) []notes.Source { return d.Sources(k.Root) },
		Commands: true, Folder: k.Folder, Root: k.Root, // the caller chose the agent
	}
	var with engine.Equipment
	if with, err = host.Equip(c); err != nil {
		return out, err
	}
	out.Hooks, out.Mutators, out.Memory = with.Hooks, with.Mutators, with.Notes
	if out.Transcript, err = d.Instructions(k.Root); err != nil {
		return out, err
	}
	if err := d.own(ctx, k, callers, &out); err != nil {
		return out, err
	}
	return out, d.restrict(k, &out)
}

// restrict applies the agent's terms to its tools and its permissions to its calls.
func (d *Definition) restrict(k Kit, out *agent.Config) error {
	for i, s := range out.Tools {
		out.Tools[i] = tool.Under(s, d.Terms()...)
	}
	policy, err := d.Permissions.In(k.Root)
	if err != nil {
		return fmt.Errorf("agent %s: permissions: %w", d.Name, err)
	}
	if policy == nil {
		return nil
	}
	if out.Permissions != nil {
		policy = permission.All(out.Permissions, policy)
	}
	out.Permissions = policy
	return nil
}

// own adds the agent's own tools: its skills and the agents that it delegates to.
func (d *Definition) own(ctx context.Context, k Kit, callers []string, out *agent.Config) error {
	out.Tools = slices.Clone(out.Tools)
	skills, err := Skills(k.Root, d)
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
			return fmt.Errorf("agent %s delegates: agent %q: %w: this program finds no agents by name", d.Name, name, ErrUnknown)
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

// Delegations returns the source of the tools that delegate to these agents. toTool makes each tool.
func Delegations(toTool func(*Definition) (tool.Tool, error), to ...*Definition) (tool.Source, error) {
	var tools []tool.Tool
	for _, d := range to {
		t, err := toTool(d)
		if err != nil {
			return nil, err
		}
		tools = append(tools, t)
	}
	return tool.NewRegistry("agents", tools...)
}
