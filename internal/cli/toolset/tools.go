package toolset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/hostenv"
	"github.com/turnlog/turnlog/internal/sandbox"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/agents"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/exec"
	"github.com/turnlog/turnlog/tool/httptool"
	"github.com/turnlog/turnlog/tool/mcp"
	"github.com/turnlog/turnlog/tool/output"
	"github.com/turnlog/turnlog/worker"
	"github.com/turnlog/turnlog/worker/task"
)

// Published finds agents in the bucket of a deployment.
func Published(cell *jetstream.Cell) agentfile.FindFunc {
	return func(ctx context.Context, name, version string) (*agentfile.Definition, error) {
		a, err := agents.Of(cell).Get(ctx, name, version)
		if errors.Is(err, agents.ErrNotPublished) {
			return nil, fmt.Errorf("agent %q: %w: it is not published", name, agentfile.ErrUnknown)
		}
		if err != nil {
			return nil, err
		}
		return agentfile.Parse(name, a.Data, nil)
	}
}

// Agents are the agents to which a worker offers tools, and the agents to which they delegate.
type Agents struct{ All, Delegates []*agentfile.Definition }

// Tools are the open tools of a worker.
type Tools struct {
	servers *mcp.Manager
	http    *httptool.Manager

	flags   *Flags
	agents  Agents
	sources []tool.Source
}

// Start opens the tools of the flags. It also starts to connect to the HTTP tools and to the MCP servers
// of the flags and the agents, and sends them version. The caller closes the tools. Errors are usage
// errors.
func (f *Flags) Start(ctx context.Context, agents Agents, version string, getenv func(string) string, log *zap.Logger) (*Tools, error) {
	servers, err := agentfile.Servers(agents.All...)
	if err != nil {
		return nil, err
	}
	sources, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	if f.mcp, err = f.servers.parse(); err != nil {
		return nil, err
	}
	f.mcp = append(f.mcp, servers...)
	cfg := mcp.Config{Servers: f.mcp, Roots: []string{f.Root}, Getenv: getenv, Version: version, Logger: log}
	if err := cfg.Check(); err != nil {
		return nil, fmt.Errorf("--mcp: %w", err)
	}
	remote := httptool.Config{Getenv: getenv, Version: version, Logger: log}
	if remote.Services, remote.Private, err = f.http.parse(); err != nil {
		return nil, err
	}
	if err := remote.Check(); err != nil {
		return nil, fmt.Errorf("--http-tool: %w", err)
	}
	f.remote = remote.Services
	m, err := mcp.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	h, err := httptool.Open(ctx, remote)
	if err != nil {
		m.Close()
		return nil, err
	}
	return &Tools{servers: m, http: h, flags: f, agents: agents, sources: sources}, nil
}

// Close ends the connections to servers.
func (t *Tools) Close() {
	t.servers.Close()
	t.http.Close()
}

// open opens the tools of the flags, as one source per set.
func (f *Flags) open(ctx context.Context) ([]tool.Source, error) {
	root, err := filepath.Abs(f.Root)
	if err != nil {
		return nil, fmt.Errorf("--root %s: %w", f.Root, err)
	}
	f.Root = root
	dir, err := tool.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("--%w", err) // the error begins with "root"
	}
	_ = dir.Close() // this was only a check
	if err := errors.Join(f.check(), f.parsePrivate()); err != nil {
		return nil, err
	}
	if err := f.prepareCommands(ctx); err != nil {
		return nil, err
	}
	f.Unlinked = len(f.policy.paths.Protect) > 0
	sources, err := f.openSets()
	if err != nil {
		return nil, err
	}
	if sources, err = f.addManifests(ctx, sources); err != nil {
		return nil, fmt.Errorf("--tool-manifest: %w", err)
	}
	f.permissions, err = f.policy.permissions(root)
	return sources, err
}

// prepareCommands completes the settings of commands, and finds out whether a sandbox works here.
func (f *Flags) prepareCommands(ctx context.Context) (err error) {
	if !f.runsCommands() {
		return nil
	}
	c := &f.Commands
	if c.Env, err = hostenv.Pass(f.passEnv); err != nil {
		return fmt.Errorf("--pass-env: %w", err)
	}
	box, why, err := sandbox.Open(ctx, f.sandbox, c.Network)
	if err != nil {
		return fmt.Errorf("--sandbox: %w", err)
	}
	c.Sandbox, f.noSandbox = box.Name(), why
	for i, p := range c.Writable {
		if c.Writable[i] = f.below(p); c.Sandbox == sandbox.None {
			continue
		}
		if _, err := os.Stat(c.Writable[i]); err != nil {
			return fmt.Errorf("--sandbox-write %s: it does not exist: create it or name another path", p)
		}
	}
	c.ReadOnly = f.guard("read-only", f.policy.paths.ReadOnly)
	c.Hidden = f.guard("protect", f.policy.paths.Protect)
	return nil
}

// guard returns the absolute form of the paths of a flag, and notes those that do not exist.
func (f *Flags) guard(flag string, paths []string) (out []string) {
	for _, p := range paths {
		at := f.below(p)
		if _, err := os.Stat(at); err != nil {
			f.absent = append(f.absent, fmt.Sprintf("--%s %s: there is no %s: commands may create and change it", flag, p, at))
		}
		out = append(out, at)
		if leads, err := filepath.EvalSymlinks(at); err == nil && leads != at { // the link may be changed later
			out = append(out, leads)
		}
	}
	return out
}

// below returns the absolute form of a path that may be relative to the root.
func (f *Flags) below(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(f.Root, path)
}

// addManifests opens the tools of the manifests, which no other source may offer.
func (f *Flags) addManifests(ctx context.Context, sources []tool.Source) ([]tool.Source, error) {
	var tools []tool.Tool
	for _, name := range f.manifests {
		more, err := exec.Load(f.Root, name, f.Commands) //nolint:contextcheck // too fast to need a context
		if err != nil {
			return nil, err
		}
		tools = append(tools, more...)
	}
	if len(tools) == 0 {
		return sources, nil
	}
	manifests, err := tool.NewRegistry("manifests", tools...)
	if err != nil {
		return nil, err
	}
	sources = append(sources, manifests)
	_, err = tool.Sample(ctx, sources, tool.ErrorOnCollision)
	return sources, err
}

// Sources returns all tools: the tools of the sets, manifests and MCP servers, the agents' skills, and
// the tools that delegate to agents, which delegation makes. If the flags ask for it, long outputs go
// to the store, except for sessions for which refuse returns an error; refuse may be nil. Errors are
// usage errors.
func (t *Tools) Sources(
	store output.Store, refuse func(context.Context, content.SessionID) error, delegation func(*agentfile.Definition) (tool.Tool, error),
) ([]tool.Source, error) {
	sources := slices.Concat(t.sources, t.servers.Sources(), t.http.Sources())
	skills, err := agentfile.Skills(t.flags.Root, t.agents.All...)
	if err != nil {
		return nil, err
	}
	if skills != nil {
		sources = append(sources, skills)
	}
	if len(t.agents.Delegates) > 0 {
		delegates, err := agentfile.Delegations(delegation, t.agents.Delegates...)
		if err != nil {
			return nil, err
		}
		sources = append(sources, delegates)
	}
	if t.flags.outputLimit == 0 {
		return sources, nil
	}
	keep := output.Keep(store, output.Options{Limit: t.flags.outputLimit, Refuse: refuse})
	for i, s := range sources {
		if s.Name() != verifierSet { // models do not read the output of a verifier
			sources[i] = tool.WrapSource(s, keep)
		}
	}
	reader, err := output.NewReader(store)
	if err != nil {
		return nil, err
	}
	registry, err := tool.NewRegistry("output", reader)
	return append(sources, registry), err
}

// sealed returns a function that refuses to store the outputs of sealed sessions: a store does not encrypt.
func sealed(cell *jetstream.Cell) func(context.Context, content.SessionID) error {
	return func(ctx context.Context, s content.SessionID) error {
		if sealed, err := cell.IsSealed(ctx, s); err != nil || sealed {
			return cmp.Or(err, errSealed)
		}
		return nil
	}
}

var errSealed = errors.New("the session is sealed")

// Worker returns the configuration of a worker with the tools, without its queue and offers. Calls
// that delegate start sessions of the client; model sets their model, and nil leaves it to
// their agents. Its errors are usage errors.
func (t *Tools) Worker(
	cell *jetstream.Cell, c *client.Client, model func(*agentfile.Definition, *events.Config) error, log *zap.Logger,
) (worker.Config, error) {
	sources, err := t.Sources(cell.Blobs(), sealed(cell), func(d *agentfile.Definition) (tool.Tool, error) {
		ref, err := d.Ref()
		child := client.Options{Config: events.Config{Agent: ref}}
		if err == nil && model != nil {
			err = model(d, &child.Config)
		}
		if err != nil {
			return nil, err
		}
		return c.Tool(agentfile.ToolOf(d.Name), d.Purpose(), child)
	})
	if err != nil {
		return worker.Config{}, err
	}
	live, waiters := cell.Live(), 0
	if len(t.agents.Delegates) > 0 {
		waiters = maxWaiters
	}
	return worker.Config{
		Waiters: waiters, Tools: sources, Permissions: t.flags.permissions, Root: t.flags.Root, Logger: log,
		Progress: func(x task.Task, text string, share float64) {
			if err := live.Publish(x.Session, events.ToolProgress{Call: x.Call, Text: text, Share: share}); err != nil {
				log.Debug("progress not published", zap.Error(err))
			}
		},
	}, nil
}

// maxWaiters is how many calls of sub-agents may wait for the calls of their sessions without taking
// slots from them.
const maxWaiters = 256

// Remote reports whether some of the tools run elsewhere: on MCP servers or as HTTP tools.
func (t *Tools) Remote() bool { return len(t.servers.Sources())+len(t.http.Sources()) > 0 }

// Slow waits for the MCP servers and returns those that did not answer when ctx ended.
func (t *Tools) Slow(ctx context.Context) (names []string) {
	for _, s := range t.servers.Settle(ctx) {
		if s.State == mcp.Connecting {
			names = append(names, s.Server)
		}
	}
	return names
}

// Missing waits for MCP servers and HTTP tools, and returns an error for each that is unavailable.
func (t *Tools) Missing(ctx context.Context) []error {
	var out []error
	for _, s := range t.servers.Settle(ctx) {
		if s.State != mcp.Ready && ctx.Err() == nil {
			out = append(out, fmt.Errorf("MCP server %s and its tools are not available: %w", s.Server, s.Err))
		}
	}
	for _, err := range t.http.Missing(ctx) {
		if ctx.Err() == nil {
			out = append(out, err)
		}
	}
	return out
}
