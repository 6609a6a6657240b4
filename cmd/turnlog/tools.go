package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/output"
)

func newToolsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "tools",
		Short:   "Look at the tools that models are offered",
		Example: "  turnlog tools ls",
	}
	cmd.AddCommand(newToolsListCommand(a))
	return cmd
}

// toolsFlags say whose tools are listed.
type toolsFlags struct {
	tools      toolset.Flags
	agent      string
	deployment *cli.Deployment
	log        *cli.Log
	output     *cli.Choice
}

func newToolsListCommand(a *app) *cobra.Command {
	var f toolsFlags
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the tools, one a line: name, source, effects, calls, description",
		Long: `Lists the tools that "turnlog run" would offer to a model with the same flags. With a server
(a flag, NATS_URL or NATS_CONTEXT) it lists those that the workers of that deployment have on
offer now; a worker that came or went in the last ten seconds may still be missing, or there.

The effects say what may happen when a call is run twice: read_only and idempotent calls are
retried when their worker is lost, and read_only ones need no approval; a "-" stands for
everything else. The source is a set of --tools, an MCP server, or, of a deployment, the
worker and its queue.

With --agent the tools are those that sessions of the agent are offered, with its MCP servers,
skills and agents in this process, and by what its file says of them. What becomes of a call is
told then, too: allow, or ask for one that a person has to approve, and how it is waited for; what
the agent's permissions make of single paths and programs only shows when a call runs.

An MCP server that is not available is told on stderr; the others are listed. So is what the
agent's file names and nobody offers now.`,
		Example: `  turnlog tools ls
  turnlog tools ls --tools fs,shell --allow-write -o json
  turnlog tools ls --mcp 'notes=npx -y @acme/notes'
  turnlog tools ls --agent agents/reviewer.yaml
  turnlog tools ls --server nats://127.0.0.1:4222`,
	}
	f.tools.Register(cmd)
	cmd.Flags().StringVar(&f.agent, "agent", "", "list what this agent is offered: its `file`, or its name in a deployment")
	f.output = cli.OutputFlag(cmd, "text", "json")
	f.deployment = cli.NewDeployment(cmd, a.getenv)
	f.log = cli.NewLog(cmd, zapcore.ErrorLevel)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		rows, err := a.listTools(cmd, &f)
		if err != nil {
			return err
		}
		if f.output.String() == "json" {
			return writeJSON(a.term.out, rows)
		}
		return printTools(a.term.out, rows)
	}
	return cmd
}

// toolRow is a tool on offer.
type toolRow struct {
	Name        string          `json:"name"`
	Source      string          `json:"source"`
	Effects     content.Effects `json:"effects"` // "": running it twice may do harm
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`

	*ToolUse // with --agent
}

func (a *app) listTools(cmd *cobra.Command, f *toolsFlags) ([]toolRow, error) {
	if a.named(f.deployment) {
		for _, name := range toolset.FlagNames() {
			if cmd.Flags().Changed(name) {
				return nil, usageError("--%s is for the worker of this process, but with a server the tools are those of its workers", name)
			}
		}
		return a.offeredTools(cmd.Context(), f)
	}
	of, err := f.agentFor(cmd.Context(), a, nil)
	if err == nil {
		err = of.prepare(f)
	}
	if err != nil {
		return nil, err
	}
	sources, err := f.tools.Open()
	if err != nil {
		return nil, usageError("%w", err)
	}
	servers, err := f.tools.Connect(cmd.Context(), cli.Version(), a.getenv, f.log.Logger(a.term.err, a.getenv))
	if err != nil {
		return nil, usageError("%w", err)
	}
	defer servers.Close()
	if err := a.awaitServers(cmd.Context(), servers); err != nil {
		return nil, err
	}
	own, err := of.own(cmd.Context(), f)
	if err != nil {
		return nil, err
	}
	sources, err = f.tools.Keep(slices.Concat(sources, servers.Sources(), own), output.NewMemory(0))
	if err != nil {
		return nil, err
	}
	c, err := tool.Sample(cmd.Context(), of.under(sources), tool.FirstWins)
	if err != nil {
		return nil, err
	}
	rows, names := []toolRow{}, []string{}
	for _, o := range c.Offers {
		rows, names = addRow(rows, o.Source, o.Spec, of), append(names, o.Spec.Name)
	}
	of.missing(a, names)
	return rows, nil
}

// offeredTools lists what the workers of a deployment have on offer.
func (a *app) offeredTools(ctx context.Context, f *toolsFlags) ([]toolRow, error) {
	rows := []toolRow{}
	err := a.interruptible(ctx, func(ctx context.Context) error {
		d, err := f.deployment.Open(ctx, "turnlog tools", f.log.Logger(a.term.err, a.getenv), jetstream.RoleClient)
		if err != nil {
			return err
		}
		defer d.Close()
		of, err := f.agentFor(ctx, a, d.Cell)
		if err != nil {
			return err
		}
		offers, err := d.Catalog().List(ctx)
		if err != nil {
			return err
		}
		names := []string{}
		for _, o := range offers {
			for _, spec := range o.Tools {
				rows, names = addRow(rows, o.Worker+"@"+o.Queue, of.bound(spec), of), append(names, spec.Name)
			}
		}
		of.missing(a, names)
		return nil
	})
	slices.SortStableFunc(rows, func(a, b toolRow) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Source, b.Source))
	})
	return rows, err
}

// addRow adds a tool, unless models are not shown it.
func addRow(rows []toolRow, source string, spec tool.Spec, of *toolsAgent) []toolRow {
	use, offered := of.use(spec)
	if spec.Name == engine.GateTool || !offered {
		return rows
	}
	schema := spec.InputSchema
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	return append(rows, toolRow{spec.Name, source, spec.Effects, spec.Description, schema, use})
}

// aboutWidth is how much of a description a line shows.
const aboutWidth = 80

func printTools(w io.Writer, rows []toolRow) error {
	if len(rows) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	heading := "NAME\tSOURCE\tEFFECTS\tDESCRIPTION"
	if rows[0].ToolUse != nil {
		heading = "NAME\tSOURCE\tEFFECTS\tCALLS\tDESCRIPTION"
	}
	_, _ = fmt.Fprintln(t, heading)
	for _, r := range rows {
		about := []rune(strings.Join(strings.Fields(render.Safe(r.Description)), " "))
		if len(about) > aboutWidth {
			about = append(about[:aboutWidth-1], '…')
		}
		effects := cmp.Or(string(r.Effects), "-")
		if r.ToolUse != nil {
			effects += "\t" + string(r.Permission) + ", " + r.Route
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", r.Name, render.Safe(r.Source), effects, string(about))
	}
	return t.Flush()
}
