// Package config has the commands about files of settings.
package config

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/nearest"
	"github.com/turnlog/turnlog/internal/settings"
)

// Command returns the commands about files of settings.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check and show the settings of programs",
		Long: `A long-running program takes each setting from its flag, else from the flag's environment variable, else from the
file of settings that --config names, else the default applies. The variable of --log-level is TURNLOG_LOG_LEVEL,
and that of --config is TURNLOG_CONFIG. docs/settings.md describes the file.`,
		Example: `  turnlog config check turnlog.yaml
  turnlog config show driver-node --file turnlog.yaml
  turnlog config schema > turnlog.schema.json`,
	}
	cmd.AddCommand(check(a), show(a), schema(a))
	return cmd
}

func check(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a file of settings",
		Long: `Checks that each section names a program, that each setting is one of its flags, and that each value has the
flag's type. A program checks the values further when it starts.`,
		Example: `  turnlog config check turnlog.yaml`,
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := settings.Read(args[0])
			if err != nil {
				return cli.Usage("%w", err)
			}
			all, err := settings.Programs()
			if err != nil {
				return err
			}
			if err := errors.Join(f.Check(all)...); err != nil {
				return err
			}
			return app.Fields(a.Out, func(row func(name, format string, args ...any)) {
				row("FILE", "%s", f.Path)
				row("SECTIONS", "%s", strings.Join(slices.Sorted(maps.Keys(f.Sections)), ", "))
			})
		},
	}
}

func show(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show PROGRAM...",
		Short: "Show the settings of a program, and where each comes from",
		Long:  `Shows the settings that a program would have in this environment without flags. Secrets are hidden.`,
		Example: `  turnlog config show driver-node --file turnlog.yaml
  turnlog config show turnlog gateway -o json`,
	}
	path := cmd.Flags().String("file", "", "`file` of settings; default: "+settings.FileVariable)
	_ = cmd.MarkFlagFilename("file", "yaml", "yml") // the flag exists
	output := a.Output(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		all, err := settings.Programs()
		if err != nil {
			return err
		}
		named, names := strings.Join(args, " "), []string{}
		for _, p := range all {
			names = append(names, p.Command)
		}
		i := slices.Index(names, named)
		if i < 0 {
			return cli.Usage("unknown program %q%s: use one of %s", named, nearest.Hint(named, names), strings.Join(names, ", "))
		}
		var f *settings.File
		if *path == "" {
			*path = a.Getenv(settings.FileVariable)
		}
		if *path != "" {
			if f, err = settings.Read(*path); err == nil {
				err = errors.Join(f.Check(all)...)
			}
			if err != nil {
				return cli.Usage("%w", err)
			}
		}
		rows := all[i].Show(f, a.Getenv)
		return output.Print(rows, func(w io.Writer) error {
			return app.Table(w, "SETTING VALUE FROM", rows, func(s settings.Setting) []any {
				return []any{s.Name, cmp.Or(strings.Join(s.Values, ", "), "-"), s.From}
			})
		})
	}
	return cmd
}

func schema(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON schema of a file of settings, for editors",
		Example: `  turnlog config schema > turnlog.schema.json`,
		RunE: func(*cobra.Command, []string) error {
			all, err := settings.Programs()
			if err != nil {
				return err
			}
			return app.WriteJSON(a.Out, settings.Schema(all))
		},
	}
}
