package agents

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/model/registry"
)

// Models returns the command that lists the models.
func Models(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List model providers, and what each needs in this environment",
		Long: `Shows for each model provider whether this process's environment has what it needs, and which model
a session gets by default. It calls no provider, so a key may still be invalid.

The name of a model is provider:model?option=value, for example openai:gpt-5.5?effort=low. In a
deployment, models use the environment of the driver nodes, not this one.`,
		Example: `  turnlog models
  turnlog models -o json
  TURNLOG_MODEL=openai:gpt-5.5 turnlog run "What is here?"`,
	}
	output := a.Output(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		models := flags.Models(a)
		var report struct {
			Default   string            `json:"default"` // the model of a session that names none, in this process
			Because   string            `json:"because"` // the variable that chose it, or ""
			Providers []registry.Status `json:"providers"`
		}
		report.Providers = models.Status()
		report.Default, report.Because = models.Default()
		report.Default = cmp.Or(report.Default, registry.Demo)
		return output.Print(report, func(w io.Writer) error {
			err := app.Table(w, "NAME STATE OPTIONS", report.Providers, func(s registry.Status) []any {
				return []any{s.Usage, state(s), cmp.Or(strings.Join(s.Options, " "), "-")}
			})
			if err != nil {
				return err
			}
			because := ""
			if report.Because != "" {
				because = ", since " + report.Because + " is set"
			}
			_, err = fmt.Fprintf(w, "\nWithout --model: %s%s\n", report.Default, because)
			return err
		})
	}
	return cmd
}

// state says whether a provider's models can be used.
func state(s registry.Status) string {
	if !s.Ready {
		missing := strings.Join(s.Missing, " or ")
		if s.Address != "" {
			missing += " or " + s.Address // a server that needs no key
		}
		return "missing " + strings.TrimPrefix(missing, " or ")
	}
	text := "ready"
	if s.Key != "" {
		text += ", " + s.Key
	}
	if s.BaseURL != "" {
		text += " at " + s.BaseURL
	}
	return text
}
