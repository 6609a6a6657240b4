// Package agents holds the commands for agents and their files, for models, and for the
// tools that models see.
//
// Every list is computed in the same way as for a session, so it shows what a session
// gets. No command here opens a session.
package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/jetstream/admin"
	store "github.com/turnlog/turnlog/jetstream/agents"
	"github.com/turnlog/turnlog/policy/agentfile"
)

// Command returns the command with its subcommands.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "Show, check and publish agents",
		Example: `  turnlog agents check agents
  turnlog agents publish agents/reviewer.yaml
  turnlog run --server nats://127.0.0.1:4222 --agent reviewer "Look at the last change"`,
	}
	cmd.AddCommand(list(a), show(a), check(a), publish(a), withdraw(a), schema(a))
	return cmd
}

// row is an agent with which sessions can start.
type row struct {
	Name        string          `json:"name"`
	Version     string          `json:"version"`
	Source      string          `json:"source"` // published, or the file
	Description string          `json:"description,omitempty"`
	Definition  json.RawMessage `json:"definition,omitempty"`
}

// published is the source of an agent that was looked up in the deployment.
const published = "published"

func list(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the published agents, one per line: name, version, description",
		Long: `Lists the agents that are published in a deployment. To check the agent files of a folder, use
"turnlog agents check".`,
		Example: `  turnlog agents ls --server nats://127.0.0.1:4222
  turnlog agents ls -o json | jq -r '.[].name'`,
	}
	output := a.Output(cmd)
	r := a.Remote(cmd, admin.RoleClient)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return r.Do(cmd.Context(), func(ctx context.Context, d *cli.Cell, _ *client.Client) error {
			all, err := store.Of(d.Cell).List(ctx)
			if err != nil {
				return err
			}
			rows := make([]row, len(all))
			for i, p := range all {
				rows[i] = row{Name: p.Name, Version: p.Version, Source: published}
				if d, err := agentfile.Parse(p.Name, p.Data, nil); err == nil {
					rows[i].Description = d.Description
				}
			}
			return output.Print(rows, func(w io.Writer) error {
				return app.Table(w, "NAME VERSION DESCRIPTION", rows, func(r row) []any {
					return []any{r.Name, r.Version, render.Style{}.Line(r.Description)}
				})
			})
		})
	}
	return cmd
}

func show(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NAME|FILE",
		Short: "Print the definition of an agent, with its version",
		Long: `Prints the complete definition, including everything that a file includes from other files. NAME is
the name of a published agent.`,
		Example: `  turnlog agents show agents/reviewer.yaml
  turnlog agents show reviewer --server nats://127.0.0.1:4222 -o json
  turnlog agents show reviewer --version 0123456789abcdef`,
	}
	version := cmd.Flags().String("version", "", "`version` of a published agent; default: the newest")
	output := a.Output(cmd, "yaml", "json")
	r := a.Remote(cmd, admin.RoleClient)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, source, err := find(cmd.Context(), r, args[0], *version)
		if errors.Is(err, agentfile.ErrUnknown) {
			return fmt.Errorf("%w: \"turnlog agents ls\" lists all agents", err)
		}
		if err != nil {
			return err
		}
		ref, err := d.Ref()
		if err != nil {
			return err
		}
		one := row{Name: d.Name, Version: ref.Version, Source: source, Description: d.Description, Definition: ref.Data}
		return output.Print(one, func(w io.Writer) error {
			text, err := yaml.MarshalWithOptions(d, yaml.UseLiteralStyleIfMultiline(true))
			if err == nil {
				_, err = fmt.Fprintf(w, "# version %s, %s\n%s", one.Version, source, text)
			}
			return err
		})
	}
	return cmd
}

// find finds an agent by name or file and returns where it was found.
func find(ctx context.Context, r *app.Remote, name, version string) (d *agentfile.Definition, source string, err error) {
	if agentfile.IsFile(name) {
		if d, err = agentfile.Load(name); err != nil {
			err = cli.Usage("%w", err)
		}
		return d, name, err
	}
	err = r.Do(ctx, func(ctx context.Context, c *cli.Cell, _ *client.Client) error {
		d, err = toolset.Published(c.Cell)(ctx, name, version)
		return err
	})
	return d, published, err
}

func publish(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "publish FILE...",
		Short: "Make agents available by name in a deployment",
		Long: `Publishes each definition in the deployment as the newest version of its agent, and prints its name
and version. New sessions that name the agent use that version. Existing sessions, and references to a
specific version, do not change. If a driver node has a file of that name in its --agents folder, it
uses the file instead. If "turnlog agents check" finds a problem in any of the files, none is published.`,
		Example: `  turnlog agents publish agents/*.yaml --server nats://127.0.0.1:4222`,
	}
	r := a.Remote(cmd, admin.RoleClient)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var all []*agentfile.Definition
		for _, file := range args {
			d, err := flags.LoadFile(a, file)
			if err != nil {
				return err
			}
			all = append(all, d)
		}
		return r.Do(cmd.Context(), func(ctx context.Context, c *cli.Cell, _ *client.Client) error {
			for _, d := range all {
				ref, err := d.Ref()
				if err == nil {
					err = store.Of(c.Cell).Publish(ctx, ref.Name, ref.Version, ref.Data)
				}
				if err == nil {
					_, err = fmt.Fprintf(a.Out, "%s %s\n", ref.Name, ref.Version)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmd
}

func withdraw(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "withdraw NAME",
		Short: "Make an agent unavailable to new sessions",
		Long: `Removes the agent's name from the deployment, so that new sessions cannot start with it. Its versions
stay, and sessions that started with one of them continue.`,
		Example: "  turnlog agents withdraw reviewer --server nats://127.0.0.1:4222",
	}
	r := a.Remote(cmd, admin.RoleClient)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return r.Do(cmd.Context(), func(ctx context.Context, c *cli.Cell, _ *client.Client) error {
			return store.Of(c.Cell).Withdraw(ctx, args[0])
		})
	}
	return cmd
}

func schema(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of agent files",
		Example: "  turnlog agents schema > agent.schema.json",
		RunE: func(*cobra.Command, []string) error {
			_, err := a.Out.Write(agentfile.Schema())
			return err
		},
	}
}
