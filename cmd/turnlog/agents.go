package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/policy/agentfile"
)

func newAgentsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "Look at agents that are written down, and publish them",
		Example: `  turnlog agents check agents
  turnlog agents publish agents/reviewer.yaml
  turnlog run --server nats://127.0.0.1:4222 --agent reviewer "Look at the last change"`,
	}
	cmd.AddCommand(
		newAgentsListCommand(a), newAgentsShowCommand(a), newAgentsCheckCommand(a),
		newAgentsPublishCommand(a), newAgentsWithdrawCommand(a), newAgentsSchemaCommand(a),
	)
	return cmd
}

// agentRow is an agent that sessions can begin with.
type agentRow struct {
	Name        string          `json:"name"`
	Version     string          `json:"version"`
	Source      string          `json:"source"` // published, or the folder
	Description string          `json:"description,omitempty"`
	Definition  json.RawMessage `json:"definition,omitempty"`

	Problems agentfile.Problems `json:"problems,omitempty"` // why a file of the folder is no agent; it has no version then
}

func rowOf(d *agentfile.Definition, source string) (agentRow, error) {
	ref, err := d.Ref()
	if err != nil {
		return agentRow{}, err
	}
	return agentRow{Name: d.Name, Version: ref.Version, Source: source, Description: d.Description, Definition: ref.Data}, nil
}

// folderFlag names a folder of agent files.
func folderFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "agents", "", "`folder` of agent files, as driver nodes have")
	_ = cmd.MarkFlagDirname("agents") // the flag is there
}

func newAgentsListCommand(a *app) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the agents, one a line: name, version, source, description",
		Long: `Lists the agents of a folder, those that are published in a deployment, or both: a driver node
looks into its folder first. Without --agents the deployment is asked.

What is wrong with files of the folder is told on stderr, as by "turnlog agents check", and does
not change the exit code. With -o json such a file is a row without a version, and its problems
are under problems: file, line, column, path and message.`,
		Example: `  turnlog agents ls --agents agents
  turnlog agents ls --server nats://127.0.0.1:4222 -o json`,
	}
	folderFlag(cmd, &dir)
	output := cli.OutputFlag(cmd, "text", "json")
	r := newRemote(a, cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		rows, err := a.listFolder(dir)
		if err == nil && (dir == "" || a.named(r.deployment)) {
			err = r.do(cmd.Context(), func(ctx context.Context, d *cli.Cell, _ *client.Client) error {
				more, err := listPublished(ctx, d.Cell)
				rows = append(rows, more...)
				return err
			})
		}
		if err != nil {
			return err
		}
		if output.String() == "json" {
			return writeJSON(a.term.out, rows)
		}
		return printAgents(a.term.out, rows)
	}
	return cmd
}

// listFolder lists what can be used of a folder, and tells of the rest.
func (a *app) listFolder(dir string) ([]agentRow, error) {
	rows := []agentRow{}
	if dir == "" {
		return rows, nil
	}
	all, err := a.knownAgents(dir).List(agentfile.Folder(dir))
	problems, bad := errors.AsType[agentfile.Problems](err)
	if err != nil && !bad {
		return nil, usageError("--agents: %w", err)
	}
	for _, d := range all {
		row, err := rowOf(d, dir)
		if err != nil {
			return nil, err
		}
		row.Definition = nil
		rows = append(rows, row)
	}
	for _, p := range problems {
		a.complain(p)
		i := slices.IndexFunc(rows, func(r agentRow) bool { return len(r.Problems) > 0 && r.Source == p.File })
		if i < 0 {
			name := strings.TrimSuffix(filepath.Base(p.File), filepath.Ext(p.File))
			i, rows = len(rows), append(rows, agentRow{Name: name, Source: p.File})
		}
		rows[i].Problems = append(rows[i].Problems, p)
	}
	return rows, nil
}

func listPublished(ctx context.Context, cell *jetstream.Cell) ([]agentRow, error) {
	all, err := cell.Agents().List(ctx)
	if err != nil {
		return nil, err
	}
	var rows []agentRow
	for _, p := range all {
		row := agentRow{Name: p.Name, Version: p.Version, Source: "published"}
		if d, err := agentfile.Parse(p.Name, p.Data, nil); err == nil {
			row.Description = d.Description
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func printAgents(w io.Writer, rows []agentRow) error {
	rows = slices.DeleteFunc(rows, func(r agentRow) bool { return len(r.Problems) > 0 }) // they were told
	if len(rows) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "NAME\tVERSION\tSOURCE\tDESCRIPTION")
	for _, r := range rows {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", r.Name, r.Version, render.Safe(r.Source), render.Style{}.Line(r.Description))
	}
	return t.Flush()
}

func newAgentsShowCommand(a *app) *cobra.Command {
	var dir, version string
	cmd := &cobra.Command{
		Use:   "show NAME|FILE",
		Short: "Print the definition of an agent, with its version",
		Long: `Prints a definition as it is kept: complete, with all that a file takes from others. A NAME is
looked for in the folder of --agents if there is one, else among those that are published.`,
		Example: `  turnlog agents show agents/reviewer.yaml
  turnlog agents show reviewer --server nats://127.0.0.1:4222 -o json
  turnlog agents show reviewer --version 0123456789abcdef`,
	}
	folderFlag(cmd, &dir)
	cmd.Flags().StringVar(&version, "version", "", "`version` of a published agent; default: the newest")
	output := cli.OutputFlag(cmd, "yaml", "json")
	r := newRemote(a, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, source, err := findAgent(cmd.Context(), r, args[0], dir, version)
		if errors.Is(err, agentfile.ErrUnknown) {
			return fmt.Errorf("%w: \"turnlog agents ls\" lists those that there are", err)
		}
		if err != nil {
			return err
		}
		row, err := rowOf(d, source)
		if err != nil {
			return err
		}
		if output.String() == "json" {
			return writeJSON(a.term.out, row)
		}
		text, err := yaml.MarshalWithOptions(d, yaml.UseLiteralStyleIfMultiline(true))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.term.out, "# version %s, %s\n%s", row.Version, source, text)
		return err
	}
	return cmd
}

// findAgent finds an agent by name or file, and says where it was.
func findAgent(ctx context.Context, r *remote, name, dir, version string) (d *agentfile.Definition, source string, err error) {
	switch {
	case agentfile.IsFile(name):
		if d, err = agentfile.Load(name); err != nil {
			err = usageError("%w", err)
		}
		return d, name, err
	case dir != "":
		d, err = agentfile.Folder(dir).Find(ctx, name, version)
		return d, dir, err
	}
	err = r.do(ctx, func(ctx context.Context, c *cli.Cell, _ *client.Client) error {
		d, err = published(c.Cell)(ctx, name, version)
		return err
	})
	return d, "published", err
}

func newAgentsPublishCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "publish FILE...",
		Short: "Make agents known by name in a deployment",
		Long: `Puts definitions into the deployment, each as the newest version of its agent, and prints name
and version. New sessions that name the agent begin with it; those that there are keep theirs,
and so does everybody who names a version. A driver node that has a file of that name in its
folder takes the file. What "turnlog agents check" finds wrong with a file is not published, and
neither are the others of the command line.`,
		Example: `  turnlog agents publish agents/*.yaml --server nats://127.0.0.1:4222`,
	}
	r := newRemote(a, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var all []*agentfile.Definition
		for _, file := range args {
			d, err := a.loadAgent(file)
			if err != nil {
				return err
			}
			all = append(all, d)
		}
		return r.do(cmd.Context(), func(ctx context.Context, c *cli.Cell, _ *client.Client) error {
			for _, d := range all {
				if err := a.publish(ctx, c.Cell, d); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmd
}

func (a *app) publish(ctx context.Context, cell *jetstream.Cell, d *agentfile.Definition) error {
	ref, err := d.Ref()
	if err != nil {
		return err
	}
	if err := cell.Agents().Publish(ctx, ref.Name, ref.Version, ref.Data); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.term.out, "%s %s\n", ref.Name, ref.Version)
	return err
}

func newAgentsWithdrawCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "withdraw NAME",
		Short: "Take an agent away from new sessions",
		Long: `Takes the agent's name out of the deployment: no new session can begin with it. Its versions
stay, and so do sessions that began with one of them.`,
		Example: "  turnlog agents withdraw reviewer --server nats://127.0.0.1:4222",
	}
	r := newRemote(a, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return r.do(cmd.Context(), func(ctx context.Context, c *cli.Cell, _ *client.Client) error {
			return c.Agents().Withdraw(ctx, args[0])
		})
	}
	return cmd
}

func newAgentsSchemaCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of agent files",
		Example: "  turnlog agents schema > agent.schema.json",
		RunE: func(*cobra.Command, []string) error {
			_, err := a.term.out.Write(agentfile.Schema())
			return err
		},
	}
}
