package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/model/registry"
)

// demoModel is used if nothing says which model to use.
const demoModel = "demo"

// models opens models by name, with this process's environment.
func (a *app) models() *registry.Registry { return registry.New(a.getenv) }

// registerModels adds the flag that names the model of a new session. Given more than
// once, each further one is asked what the one before could not answer.
func registerModels(cmd *cobra.Command, names *[]string) {
	cmd.Flags().StringArrayVar(names, "model", nil, "`model` of a new session: "+usages()+
		"; again: what is asked if that fails; default: "+registry.ModelVariable+
		", else, in this process, a model of the first provider whose key is set, else "+demoModel)
	_ = cmd.RegisterFlagCompletionFunc("model", completeModel) // the flag is there
}

// chosen is the model that a session starts with.
type chosen struct {
	name string
	data []byte
}

// chooseModel returns the model that is named, or else the one that the environment
// gives. For a session of this process the model must be there; in a deployment the
// nodes' environments count, so only what would be refused everywhere is.
// Files that names name are relative to the folder in which they are written down; "": to
// where the command runs.
func (a *app) chooseModel(named []string, folder string, local bool) (chosen, error) {
	models := a.models().In(folder)
	name, because := registry.Fallback(named...), ""
	if len(named) == 0 {
		name, because = demoModel, ""
		if byDefault, variable := models.Default(); byDefault != "" && (local || variable == registry.ModelVariable) {
			name, because = byDefault, variable
		}
	}
	data, err := modelData(models, name, local)
	switch {
	case err != nil && because == registry.ModelVariable:
		return chosen{}, usageError("%s: %w", because, err)
	case err != nil:
		return chosen{}, usageError("%w", err)
	}
	if because != "" && local {
		a.hint("model %s, since %s is set; --model names another one", name, because)
	}
	return chosen{name: name, data: data}, nil
}

// modelData is what travels with the name.
func modelData(models *registry.Registry, name string, local bool) ([]byte, error) {
	m, err := models.Open(name, nil)
	var data []byte
	if err == nil {
		data = registry.Data(m)
	}
	if local {
		return data, err
	}
	if _, missing := errors.AsType[*registry.MissingError](err); missing || err == nil {
		_, err = models.OpenShared(name, data)
	}
	if _, missing := errors.AsType[*registry.MissingError](err); missing {
		err = nil // a node may have it
	}
	return data, err
}

// completeModel offers the providers, and behind those that read a file the files.
func completeModel(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var out []cobra.Completion
	provider, file, inFile := strings.Cut(typed, ":")
	for _, p := range registry.Providers() {
		name := p.Name
		if strings.Contains(p.Usage, ":") {
			name += ":"
		}
		if !inFile {
			out = append(out, name)
		}
		if !inFile || p.Name != provider || p.Usage != name+"FILE" {
			continue
		}
		files, _ := filepath.Glob(file + "*") // a bad pattern has no matches
		for _, f := range files {
			if info, err := os.Stat(f); err == nil && info.IsDir() {
				f += string(filepath.Separator)
			}
			out = append(out, name+f)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// usages lists how models are named.
func usages() string {
	var names []string
	for _, p := range registry.Providers() {
		names = append(names, p.Usage)
	}
	return strings.Join(names, ", ")
}

// modelsReport is what models -o json prints.
type modelsReport struct {
	Default   string            `json:"default"` // the model of a session that names none, in this process
	Because   string            `json:"because"` // the variable that says so; "": none does
	Providers []registry.Status `json:"providers"`
}

func newModelsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "models",
		Short: "Say which models can be used here, and what the others lack",
		Long: `Says of each provider of models whether this process's environment has what it needs, and
which model a session gets if none is named. No provider is asked: a key may be wrong.

A model is named as provider:model?option=value, for example openai:gpt-5.5?effort=low. In a
deployment the environment of the driver nodes counts, not this one.`,
		Example: `  turnlog models
  turnlog models -o json
  TURNLOG_MODEL=openai:gpt-5.5 turnlog run "What is here?"`,
	}
	output := cli.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(*cobra.Command, []string) error {
		models := a.models()
		report := modelsReport{Providers: models.Status()}
		if report.Default, report.Because = models.Default(); report.Default == "" {
			report.Default = demoModel
		}
		if output.String() == "json" {
			return writeJSON(a.term.out, report)
		}
		return writeModels(a.term.out, report)
	}
	return cmd
}

func writeModels(w io.Writer, r modelsReport) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "NAME\tSTATE\tOPTIONS") // Flush tells
	for _, s := range r.Providers {
		options := strings.Join(s.Options, " ")
		if options == "" {
			options = "-"
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\n", s.Usage, state(s), options)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	because := ""
	if r.Because != "" {
		because = ", since " + r.Because + " is set"
	}
	_, err := fmt.Fprintf(w, "\nWithout --model: %s%s\n", r.Default, because)
	return err
}

// addressOf is the variable with the address of a server that wants no key.
func addressOf(s registry.Status) []string {
	if s.Address == "" {
		return nil
	}
	return []string{s.Address}
}

// state says in a few words whether a provider's models can be used.
func state(s registry.Status) string {
	if !s.Ready {
		return "missing " + strings.Join(append(slices.Clone(s.Missing), addressOf(s)...), " or ")
	}
	words := "ready"
	if s.Key != "" {
		words += ", " + s.Key
	}
	if s.BaseURL != "" {
		words += " at " + s.BaseURL
	}
	return words
}
