// Package webhooks holds the command that sends webhooks, and the commands that manage its endpoints.
//
// The position of each endpoint is stored in the deployment, so these commands work from any machine, regardless of
// which process sends.
package webhooks

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/client/webhooks"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/ops"
	"github.com/turnlog/turnlog/internal/settings"
	"github.com/turnlog/turnlog/internal/textfile"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// Command returns the command with its subcommands.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "webhooks",
		Short: "Send webhooks about approvals, finished turns, failures and dead letters",
		Long: `Follows all sessions of a deployment and posts signed messages (Standard Webhooks) to the endpoints of
a file: when a call needs approval, a turn finishes, a session fails, or a call becomes a dead letter.
docs/webhooks.md describes the file and the messages.

Each message is delivered at least once, even if this process is killed and started again. Several processes
may run for one deployment; each endpoint is served by one of them. A failed message is retried for a day; then
"turnlog webhooks dead ls" lists it. An endpoint that answers 410 is disabled until "turnlog webhooks enable".

A new endpoint gets only events from then on. Addresses that are not public are denied, unless the endpoint
allows them.

With --http, /metrics has messages and attempts by outcome, waiting messages, and disabled endpoints. It needs
the permissions of a messenger.`,
		Example: `  turnlog webhooks --endpoints webhooks.yaml
  turnlog webhooks ls
  turnlog webhooks dead retry slack --all`,
	}
	r := a.RemoteAt(cmd, admin.RoleMessenger, zapcore.InfoLevel)
	file := cmd.Flags().String("endpoints", "", "`file` with the endpoints")
	_ = cmd.MarkFlagFilename("endpoints", "yaml", "yml") // the flag exists
	address := ops.AddressFlag(cmd)
	settings.Lasts(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *file == "" {
			return cli.Usage("give --endpoints FILE: docs/webhooks.md describes it")
		}
		text, err := textfile.ReadFile(*file, textfile.MaxSize)
		if err != nil {
			return cli.Usage("--endpoints: %w", err)
		}
		endpoints, err := webhooks.Parse(text, a.Getenv)
		if err != nil {
			return cli.Usage("--endpoints %s: %w", *file, err)
		}
		return a.Interruptible(cmd.Context(), func(ctx context.Context) error {
			cell, err := r.Open(ctx, r.Program(), r.Logger(), r.Role)
			if err != nil {
				return err
			}
			defer cell.Close()
			registry := ops.NewRegistry()
			cfg := webhooks.Config{Endpoints: endpoints}
			measure(registry, &cfg)
			server, err := ops.Listen(ctx, *address, registry, cell.Ready(func() error { return nil }), r.Logger())
			if err != nil {
				return err
			}
			return cell.Advise(cell.Work(ctx, server.Run, webhooks.New(cell.Cell, cfg, r.Logger().Named("webhooks")).Run))
		})
	}
	cmd.AddCommand(list(a, r), enable(r), dead(a, r))
	return cmd
}

// measure registers metrics of a sender. Known endpoints and outcomes are zero from the start.
func measure(registry *prometheus.Registry, cfg *webhooks.Config) {
	with := promauto.With(registry)
	gauge := func(name, help string) *prometheus.GaugeVec {
		return with.NewGaugeVec(prometheus.GaugeOpts{Namespace: "turnlog", Subsystem: "webhooks", Name: name, Help: help}, []string{"endpoint"})
	}
	attempts := with.NewCounterVec(prometheus.CounterOpts{
		Namespace: "turnlog", Subsystem: "webhooks", Name: "outcomes_total",
		Help: "Outcomes: delivered messages, failed attempts, and dead messages, which are not retried.",
	}, []string{"endpoint", "outcome"})
	sending := gauge("sending", "1 if this process sends to the endpoint.")
	disabled := gauge("disabled", "1 if the endpoint is disabled.")
	waiting := gauge("waiting", "Messages that were read and are not acknowledged.")
	for _, e := range cfg.Endpoints {
		for _, o := range webhooks.Outcomes() {
			attempts.WithLabelValues(e.Name, string(o))
		}
	}
	is := map[bool]float64{true: 1}
	cfg.Attempted = func(endpoint string, o webhooks.Outcome) { attempts.WithLabelValues(endpoint, string(o)).Inc() }
	cfg.Report = func(s webhooks.Status) {
		sending.WithLabelValues(s.Endpoint).Set(is[s.Sending])
		disabled.WithLabelValues(s.Endpoint).Set(is[s.Disabled])
		waiting.WithLabelValues(s.Endpoint).Set(float64(s.Waiting))
	}
}
