package flags

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/model/fallback"
	"github.com/turnlog/turnlog/model/registry"
)

// Models opens models by name, with the process's environment.
func Models(a *app.App) *registry.Registry { return registry.New(a.Getenv) }

// registerModels adds the flag that names a model and its fallbacks. what says what the model is for.
func registerModels(cmd *cobra.Command, names *[]string, what, byDefault string) {
	var usages, providers []string
	for _, p := range registry.Providers() {
		usages = append(usages, p.Usage)
		provider, _, more := strings.Cut(p.Usage, ":")
		if more {
			provider += ":"
		}
		providers = append(providers, provider)
	}
	cmd.Flags().StringArrayVar(names, "model", nil, "`model` "+what+": "+strings.Join(usages, ", ")+"; repeatable, for fallbacks; default: "+byDefault)
	complete := cobra.FixedCompletions(providers, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace)
	_ = cmd.RegisterFlagCompletionFunc("model", complete) // the flag exists
}

// usualModel says which model a session without a named model gets.
const usualModel = registry.ModelVariable + ", else, in this process, a model of the first provider whose key is set, else " + registry.Demo

// Model is the model that a session starts with.
type Model struct {
	Name string
	Data []byte
}

// chooseModel returns the named model, or else the default of the environment. In
// this process the model must be available. In a deployment the nodes' environments
// count, so only a name that every node would refuse is an error. File names are
// relative to folder; "" is the current directory.
func chooseModel(a *app.App, named []string, folder string, local bool) (Model, error) {
	models := Models(a).In(folder)
	name, because := fallback.Name(named...), ""
	if len(named) == 0 {
		name = registry.Demo
		if byDefault, variable := models.Default(); byDefault != "" && (local || variable == registry.ModelVariable) {
			name, because = byDefault, variable
		}
	}
	data, err := ModelData(models, name, local)
	switch {
	case err != nil && because == registry.ModelVariable:
		return Model{}, cli.Usage("%s: %w", because, err)
	case err != nil:
		return Model{}, cli.Usage("%w", err)
	}
	if because != "" && local {
		a.Hint("model %s, because %s is set; --model names another one", name, because)
	}
	return Model{name, data}, nil
}

// DefaultStart returns how a session that names neither model nor agent starts in a deployment of this process.
func DefaultStart(a *app.App) (events.Config, error) {
	models := Models(a)
	name := models.DefaultName()
	data, err := ModelData(models, name, false)
	if err != nil {
		return events.Config{}, cli.Usage("%s: %w", registry.ModelVariable, err)
	}
	return events.Config{Model: name, ModelData: data, Rules: []events.Rule{{Tool: "*", Action: events.RuleGuard}}}, nil
}

// ModelData returns the data that a session records about a model, in addition to its name.
func ModelData(models *registry.Registry, name string, local bool) ([]byte, error) {
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
		err = nil // a node may have the model
	}
	return data, err
}
