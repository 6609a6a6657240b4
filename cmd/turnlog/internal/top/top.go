// Package top holds the command that shows the pending and the finished work of a deployment, in the terminal and as metrics.
//
// Pending work is read from the indexes of the streams, not from the sessions. Finished work is read from the journal,
// which this command follows from its current end. So each refresh costs only a few requests. It asks nothing of workers,
// and it reads only the records of nodes.
package top

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/ops"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/internal/settings"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// Command returns the command.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Monitor queues, sessions, approvals and costs of a deployment",
		Long: `Shows the load of a deployment: for each queue, the waiting and running calls, how long the oldest one has waited, and
how many workers could run all of them; sessions by state; the numbers of sessions with a pending approval or a dead
letter, and since when; and how long nodes took to record entries in the last seconds. Below that it shows totals since
the command started: entries, turns, tokens, cost, takeovers, and how many entries of the journal it has yet to read.

At a terminal it refreshes until an interrupt; otherwise it prints once. With --http it serves the same figures at
/metrics until it is stopped, for the dashboard and the alerts in docs/monitoring. One instance is enough for a
deployment. It needs the permissions of a doctor and an observer.`,
		Example: `  turnlog top
  turnlog top --once -o json | jq .queues
  turnlog top --http 127.0.0.1:9100`,
	}
	t := top{app: a, remote: a.RemoteAt(cmd, admin.RoleDoctor, zapcore.WarnLevel)}
	cmd.Flags().DurationVar(&t.every, "every", 2*time.Second, "`time` between refreshes")
	cmd.Flags().BoolVar(&t.once, "once", false, "print once and exit")
	t.address, t.output = ops.AddressFlag(cmd), a.Output(cmd)
	settings.Lasts(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case t.every < 100*time.Millisecond:
			return cli.Usage("--every %v: use 100ms or more", t.every)
		case t.once && *t.address != "":
			return cli.Usage("--once prints, and --http serves until it is stopped: give one")
		}
		t.once = t.once || *t.address == "" && (!a.IsOut || t.output.String() == "json")
		if t.once {
			return a.Interruptible(cmd.Context(), t.run)
		}
		return a.UntilInterrupted(cmd.Context(), t.run)
	}
	return cmd
}

// top is what the command line asks for.
type top struct {
	app     *app.App
	remote  *app.Remote
	every   time.Duration
	once    bool
	address *string
	output  app.Output
}

// view is what the command shows.
type view struct {
	admin.Backlog

	Done doneCounts
	Lag  uint64 // entries that were not counted yet
}

func (t *top) run(ctx context.Context) error {
	log := t.remote.Logger()
	cell, err := t.remote.Dial(ctx, t.remote.Program(), log) // like the doctor, it accepts an incomplete deployment
	if err != nil {
		return err
	}
	defer cell.Close()
	if t.once {
		return cell.Permitted(ctx, func(ctx context.Context) error {
			b, err := admin.Of(cell.Cell).Backlog(ctx)
			if err != nil {
				return err
			}
			return t.print(view{Backlog: b})
		})
	}
	return t.watch(ctx, cell, log)
}

// watch follows the journal and shows views until ctx ends.
func (t *top) watch(ctx context.Context, cell *cli.Cell, log *zap.Logger) error {
	var end jetstream.Cursor
	if err := cell.Permitted(ctx, func(ctx context.Context) (err error) {
		end, err = cell.Journal().End(ctx, jetstream.AllSessions)
		return err
	}); err != nil {
		return err
	}
	count := newCounter(end)
	registry := ops.NewRegistry()
	m := newMetrics(registry, count)
	server, err := ops.Listen(ctx, *t.address, registry, cell.Ready(m.ready), log)
	if err != nil {
		return err
	}
	return cell.Work(ctx, server.Run, func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		var following sync.WaitGroup
		defer following.Wait()
		defer cancel(nil)
		following.Go(func() { cancel(count.follow(ctx, cell)) })
		screen := &screen{out: t.app.Out}
		for first := true; ; first = false {
			b, err := admin.Of(cell.Cell).Backlog(ctx)
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case err != nil && first:
				return cell.Advise(err)
			case err != nil:
				log.Warn("deployment not read", zap.Error(err))
			case *t.address == "":
				if err := screen.draw(count.view(b)); err != nil {
					return err
				}
			}
			m.set(count.view(b), err)
			if !pause.For(ctx, t.every) {
				return context.Cause(ctx)
			}
		}
	})
}

// errEnded is returned when the journal cannot be followed any more.
var errEnded = errors.New("the journal is no longer followed")

func ended(err error) error {
	if err == nil {
		return errEnded
	}
	return fmt.Errorf("%w: %w", errEnded, err)
}
