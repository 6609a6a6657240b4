package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/output"
)

// Tools returns the command that lists tools.
func Tools(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "tools",
		Short:   "Show the tools that models can call",
		Example: "  turnlog tools ls",
	}
	cmd.AddCommand(listTools(a))
	return cmd
}

func listTools(a *app.App) *cobra.Command {
	l := lister{app: a}
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List tools, one per line: name, source, effects, calls, description",
		Long: `Lists the tools that "turnlog run" would offer to a model with the same flags. With a server
(a flag, NATS_URL or NATS_CONTEXT) it lists the tools that the workers of that deployment offer; a
worker that started or stopped in the last ten seconds may not be reflected yet.

The effects tell whether a call can be repeated: read_only and idempotent calls are retried if their
worker is lost, and read_only calls need no approval. "-" means neither. The source is a
set of --tools, an MCP server, or, in a deployment, the worker and its queue.

With --agent it lists the tools of that agent's sessions, including its MCP servers, skills and agents
in this process. For each tool it shows what the agent's file says: whether a call is allowed or needs
approval, and how a turn waits for it. Permissions for single paths and programs apply only when a call
runs.

Unavailable MCP servers are reported on stderr, and so are tools that the agent's file names but no
worker offers.`,
		Example: `  turnlog tools ls
  turnlog tools ls --tools fs,shell --allow-write -o json
  turnlog tools ls --mcp 'notes=npx -y @acme/notes'
  turnlog tools ls --agent agents/reviewer.yaml
  turnlog tools ls --server nats://127.0.0.1:4222`,
	}
	cli.Group(cmd.Flags(), cli.ToolFlags, func() { l.tools.Register(cmd, toolset.DefaultSet) })
	cmd.Flags().StringVar(&l.file, "agent", "", "list the tools of this agent: its `file`, or its name in a deployment")
	out := a.Output(cmd)
	l.remote = a.RemoteAt(cmd, admin.RoleClient, zapcore.ErrorLevel)
	app.ServerOptional(cmd, "the tools of a worker in this process")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list := l.local
		if l.remote.Named() {
			list = l.offered
			for _, name := range toolset.FlagNames() {
				if cmd.Flags().Changed(name) {
					return cli.Usage("--%s is for the worker of this process, but a deployment has its own workers", name)
				}
			}
		}
		if err := list(cmd.Context()); err != nil {
			return err
		}
		if l.agent != nil {
			flags.HintMissing(a, l.agent, l.names)
		}
		return out.Print(append([]toolRow{}, l.rows...), l.print)
	}
	return cmd
}

// toolRow is an offered tool.
type toolRow struct {
	Name        string          `json:"name"`
	Source      string          `json:"source"`
	Effects     content.Effects `json:"effects"` // "": unsafe to run twice
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`

	*ToolUse // with --agent
}

// lister collects the tools.
type lister struct {
	app    *app.App
	remote *app.Remote
	tools  toolset.Flags
	file   string // or name of the agent

	agent  *agentfile.Definition // nil: none
	config events.Config         // configuration of the agent's sessions
	terms  []tool.Terms          // what the agent changes about tools

	rows  []toolRow
	names []string // of all tools, including those that the agent is not offered
}

// local lists the tools that a worker in this process would have.
func (l *lister) local(ctx context.Context) error {
	if err := l.loadAgent(ctx, nil); err != nil {
		return err
	}
	agents, err := l.agents(ctx)
	if err != nil {
		return err
	}
	tools, err := l.tools.Start(ctx, agents, cli.Version(), l.app.Getenv, l.remote.Logger())
	if err != nil {
		return cli.Usage("%w", err)
	}
	defer tools.Close()
	if err := l.app.AwaitServers(ctx, tools); err != nil {
		return err
	}
	sources, err := tools.Sources(output.NewMemory(0), nil, listedOnly)
	if err != nil {
		return cli.Usage("%w", err)
	}
	for i, s := range sources {
		sources[i] = tool.Under(s, l.terms...)
	}
	c, err := tool.Sample(ctx, sources, tool.FirstWins)
	if err != nil {
		return err
	}
	for _, o := range c.Offers {
		l.add(ctx, o.Source, o.Spec)
	}
	return nil
}

// offered lists the tools that the workers of a deployment offer.
func (l *lister) offered(ctx context.Context) error {
	err := l.remote.Do(ctx, func(ctx context.Context, d *cli.Cell, _ *client.Client) error {
		if err := l.loadAgent(ctx, d.Cell); err != nil {
			return err
		}
		offers, err := d.Catalog().List(ctx)
		for _, o := range offers {
			for _, spec := range o.Tools {
				l.add(ctx, o.Worker+"@"+o.Queue, tool.Bound(spec, l.terms...))
			}
		}
		return err
	})
	slices.SortStableFunc(l.rows, func(a, b toolRow) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Source, b.Source))
	})
	return err
}

// add adds a tool, unless it is not on offer to models.
func (l *lister) add(ctx context.Context, source string, spec tool.Spec) {
	l.names = append(l.names, spec.Name)
	if spec.Name == loop.VerifierTool || l.agent != nil && !engine.Offered(l.config.Tools, spec) {
		return
	}
	schema := spec.InputSchema
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	l.rows = append(l.rows, toolRow{spec.Name, source, spec.Effects, spec.Description, schema, l.use(ctx, spec)})
}

// descriptionWidth limits how many characters of a description a line shows.
const descriptionWidth = 80

func (l *lister) print(w io.Writer) error {
	header := "NAME SOURCE EFFECTS DESCRIPTION"
	if l.agent != nil {
		header = "NAME SOURCE EFFECTS CALLS DESCRIPTION"
	}
	return app.Table(w, header, l.rows, func(r toolRow) []any {
		about := []rune(strings.Join(strings.Fields(r.Description), " "))
		if len(about) > descriptionWidth {
			about = append(about[:descriptionWidth-1], '…')
		}
		cells := []any{r.Name, r.Source, cmp.Or(string(r.Effects), "-")}
		if r.ToolUse != nil {
			cells = append(cells, string(r.Permission)+", "+r.Route)
		}
		return append(cells, string(about))
	})
}
