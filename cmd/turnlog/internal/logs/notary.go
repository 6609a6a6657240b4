package logs

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/notary"
	"github.com/turnlog/turnlog/audit/witness"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/ops"
	"github.com/turnlog/turnlog/internal/settings"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// Notary returns the command that writes the log of heads.
func Notary(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "notary",
		Short: "Log the heads of all sessions, for proofs that the operator cannot forge",
		Long: `Writes the log of heads of a deployment: an append-only tree with the last entry of each session. It logs that
entry when a turn ends, when the session is parked or deleted, and otherwise within a minute of a new entry. It
signs checkpoints of the tree, has witnesses cosign them, and publishes them. "observer export --proof" then
writes proofs that can be verified without a server.

Several notaries with the same key may run for one deployment; they write one tree. If a notary is killed, the
next one continues without gaps. A notary that finds that the log was rolled back or rewritten signs nothing and
ends with exit code 1.

With --keys-root, the public key of "turnlog keys init", it also logs each version of the directory of keys, before
the heads that depend on it. Proofs then show whether a key was revoked before or after an entry was logged.

With --http, /metrics has the size of the log, the size that the published checkpoint covers, and failures.

It needs the permissions of a notary. docs/evidence.md says how to run one.`,
		Example: `  turnlog notary --sign-key notary.nk --name example.com/log
  turnlog notary --sign-key notary.nk --witness https://w1.example/=w1.example+1d3e4f5a+BAbc…`,
	}
	r := a.RemoteAt(cmd, admin.RoleNotary, zapcore.InfoLevel)
	i := newIdentity(cmd)
	witnesses := cmd.Flags().StringArray("witness", nil, "`URL=KEY` of a witness; repeat it for several")
	quorum := cmd.Flags().Int("quorum", 0, "`number` of witnesses that must cosign a checkpoint before it is published; default: all")
	root := cmd.Flags().String("keys-root", "", "public `key` of the root, to also log the directory of keys; default: it is not logged")
	address := ops.AddressFlag(cmd)
	settings.Lasts(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, key, err := i.notary(*witnesses, *quorum)
		if err != nil {
			return err
		}
		if cfg.KeysRoot = *root; *root != "" {
			if err := keys.CheckRoot(*root); err != nil {
				return cli.Usage("--keys-root: %w", err)
			}
		}
		return a.Interruptible(cmd.Context(), func(ctx context.Context) error {
			cell, err := r.Open(ctx, r.Program(), r.Logger(), r.Role)
			if err != nil {
				return err
			}
			defer cell.Close()
			registry := ops.NewRegistry()
			cfg.Report = reporting(registry)
			n, err := notary.New(cell.Cell, cfg, r.Logger().Named("notary"))
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(a.Out, "log "+key); err != nil {
				return err
			}
			server, err := ops.Listen(ctx, *address, registry, cell.Ready(func() error { return nil }), r.Logger())
			if err != nil {
				return err
			}
			return cell.Advise(cell.Work(ctx, server.Run, n.Run))
		})
	}
	cmd.AddCommand(keyCommand(a, "a log", "notary", func(key string) (string, error) { return key, nil }))
	return cmd
}

// reporting returns a function that reports a notary's progress as metrics.
func reporting(registry *prometheus.Registry) func(notary.Status) {
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "turnlog", Subsystem: "notary", Name: name, Help: help})
		registry.MustRegister(g)
		return g
	}
	size, published := gauge("log_size", "Leaves of the log of heads."), gauge("published_size", "Leaves that the published checkpoint covers.")
	waiting := gauge("waiting_heads", "Heads of sessions that are not logged yet.")
	failed := prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "turnlog", Subsystem: "notary", Name: "failures_total", Help: "Attempts to log heads or to publish a checkpoint that failed.",
	})
	registry.MustRegister(failed)
	return func(s notary.Status) {
		size.Set(float64(s.Size))
		published.Set(float64(s.Published))
		waiting.Set(float64(s.Waiting))
		if s.Err != nil {
			failed.Inc()
		}
	}
}

// notary returns the configuration of a notary, and the verifier key of its log.
func (i *identity) notary(witnesses []string, quorum int) (cfg notary.Config, logKey string, err error) {
	s, logKey, name, err := i.read()
	if err != nil {
		return cfg, "", err
	}
	if cfg.Signer, err = s.Note(name); err != nil {
		return cfg, "", err
	}
	if cfg.Key, err = headlog.ParseLogKey(logKey); err != nil {
		return cfg, "", err
	}
	for _, w := range witnesses {
		url, key, ok := strings.Cut(w, "=")
		if !ok {
			return cfg, "", cli.Usage("--witness %q: use URL=KEY, as \"turnlog witness\" prints them", w)
		}
		c, err := witness.NewClient(url, key, http.DefaultClient)
		if err != nil {
			return cfg, "", cli.Usage("--witness: %w", err)
		}
		cfg.Witnesses = append(cfg.Witnesses, c)
	}
	if cfg.Quorum = quorum; quorum == 0 {
		cfg.Quorum = len(cfg.Witnesses)
	}
	if quorum < 0 || quorum > len(cfg.Witnesses) {
		return cfg, "", cli.Usage("--quorum %d: there are %d witnesses", quorum, len(cfg.Witnesses))
	}
	return cfg, logKey, nil
}
