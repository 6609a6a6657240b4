package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/policy/agentfile"
)

// knownAgents is what this program knows about agents whose files are in a folder.
func (a *app) knownAgents(dir string) agentfile.Known {
	return agentfile.Known{Models: a.models().In(dir).Check, Tools: toolset.CheckPattern, Beside: true, Held: true}
}

// loadAgent reads an agent file that is to be used, with a look at all that can be wrong
// with it.
func (a *app) loadAgent(file string) (*agentfile.Definition, error) {
	d, err := a.knownAgents(filepath.Dir(file)).Load(file)
	if err != nil {
		return nil, usageError("%w", err)
	}
	return d, nil
}

func newAgentsCheckCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check FILE|FOLDER...",
		Short: "Say what is wrong with agent files",
		Long: `Reads agent files, all that are in a folder (*.yaml, *.yml), and what they take from others, and
prints all that is wrong with them, one a line, as file:line:column: key: what. Nothing is
connected to, and no model is asked.

Exit codes: 0 nothing is wrong, 1 something is, 2 a file is not there.

-o json prints a list of what is wrong: file, line, column, path and message.`,
		Example: `  turnlog agents check agents
  turnlog agents check agents/reviewer.yaml -o json`,
	}
	output := cli.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		code, found := cli.CodeOK, agentfile.Problems{}
		for _, arg := range args {
			err := a.checkAgents(arg)
			problems, bad := errors.AsType[agentfile.Problems](err)
			found = append(found, problems...)
			switch {
			case bad:
				code = max(code, cli.CodeFailed)
			case errors.Is(err, fs.ErrNotExist):
				code = cli.CodeUsage
				a.complain(fmt.Errorf("%s is not there", arg))
			case err != nil:
				return err
			}
		}
		if err := a.tellProblems(found, output.String()); err != nil {
			return err
		}
		if code != cli.CodeOK {
			return &cli.ExitError{Code: code} // it was told
		}
		return nil
	}
	return cmd
}

func (a *app) tellProblems(found agentfile.Problems, output string) error {
	if output == "json" {
		return writeJSON(a.term.out, found)
	}
	for _, line := range found.Lines() {
		if _, err := fmt.Fprintln(a.term.out, render.Safe(line)); err != nil {
			return err
		}
	}
	return nil
}

// checkAgents looks at a file, or at those of a folder.
func (a *app) checkAgents(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		_, err := a.loadAgent(path)
		return err
	}
	all, err := a.knownAgents(path).List(agentfile.Folder(path))
	if err == nil && len(all) == 0 {
		return agentfile.Problems{{File: path, Message: "holds no agent file: they end in .yaml or .yml"}}
	}
	return err
}
