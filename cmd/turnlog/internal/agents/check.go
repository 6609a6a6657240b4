package agents

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/model/registry"
	"github.com/turnlog/turnlog/policy/agentfile"
)

func check(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check FILE|FOLDER...",
		Short: "Check agent files",
		Long: `Checks agent files, or all in a folder (*.yaml, *.yml), with the files that they include. It prints one
problem per line, as file:line:column: key: problem. It needs no server and calls no model.

Exit codes: 0 no problems, 1 problems, 2 a file does not exist.

-o json prints a list of problems: file, line, column, path and message.`,
		Example: `  turnlog agents check agents
  turnlog agents check agents/reviewer.yaml -o json`,
	}
	output := a.Output(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		code, found := cli.CodeOK, agentfile.Problems{}
		for _, arg := range args {
			err := checkPath(a, arg)
			problems, bad := errors.AsType[agentfile.Problems](err)
			found = append(found, problems...)
			switch {
			case bad:
				code = max(code, cli.CodeFailed)
			case errors.Is(err, fs.ErrNotExist):
				code = cli.CodeUsage
				a.Complain(fmt.Errorf("%s does not exist", arg))
			case err != nil:
				return err
			}
		}
		err := output.Print(found, func(w io.Writer) error {
			for _, line := range found.Lines() {
				if _, err := fmt.Fprintln(w, render.Safe(line)); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil && code != cli.CodeOK {
			err = &cli.ExitError{Code: code}
		}
		return err
	}
	return cmd
}

// checkPath checks a file, or the files of a folder.
func checkPath(a *app.App, path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		d, err := flags.LoadFile(a, path)
		if err == nil {
			hintPrice(a, d)
		}
		return err
	}
	all, err := agentfile.Folder{Path: path, Known: flags.KnownAgents(a, path)}.List()
	for _, d := range all {
		hintPrice(a, d)
	}
	if err == nil && len(all) == 0 {
		return agentfile.Problems{{File: path, Message: "holds no agent file: they end in .yaml or .yml"}}
	}
	return err
}

// hintPrice says which models of an agent its limits on cost do not count.
func hintPrice(a *app.App, d *agentfile.Definition) {
	costs := func(l *agentfile.Limits) bool { return l != nil && l.CostMicros != 0 }
	if !costs(d.Limits) && !costs(d.SessionLimits) {
		return
	}
	for _, name := range flags.Models(a).Unpriced(d.ModelName()) {
		a.Hint("agent %s: cost_micros does not count calls of %s, unless its provider reports costs: no price is known here; see %s in docs/models.md",
			d.Name, name, registry.PricesVariable)
	}
}
