package journals

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

// Bisect returns the command that finds the entry at which a session starts to go wrong.
func Bisect(a *app.App) *cobra.Command {
	b := bisection{app: a}
	cmd := &cobra.Command{
		Use:   "bisect SESSION",
		Short: "Find the entry at which a session starts to go wrong",
		Long: `Forks a session after some of its entries, runs a command for each fork, and finds the first entry after which the
command fails. It needs as many forks as it takes to halve the number of entries down to one, and so assumes
that the session stays wrong once it is.

The command is run by sh. TURNLOG_FORK is the ID of the fork, TURNLOG_ENTRY the number of the entry. It exits with
0 if all is well after that entry, and with 1 to 124 if something is wrong. Any other code says that it cannot tell, for
example that there is no such command, and ends the search. It may talk to the fork, which is a session like any other.
After an entry in the middle of a turn, the fork first goes on with that turn, as its model answers now.

Only entries are tried after which no call waits or runs, since a fork would ask about such calls and run them. A fork
is named SESSION-at-ENTRY and stays: a search that was interrupted uses it again.`,
		Example: `  turnlog bisect plan-7 --check 'turnlog send --wait $TURNLOG_FORK "Which database do we use?" | grep -q Postgres'
  turnlog bisect plan-7 --check './check.sh' -o json`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&b.check, "check", "", "`command` that fails for a fork in which something is wrong")
	_ = cmd.MarkFlagRequired("check") // the flag exists
	output := a.Output(cmd)
	r := a.RemoteClient(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := cli.ParseSession(args[0])
		if err != nil {
			return err
		}
		return r.Do(cmd.Context(), func(ctx context.Context, _ *cli.Cell, c *client.Client) error {
			b.client = c
			found, err := b.search(ctx, id)
			if err != nil {
				return err
			}
			return output.Print(found, found.print)
		})
	}
	return cmd
}

// bisection searches for an entry.
type bisection struct {
	app    *app.App
	client *client.Client
	check  string
}

// culprit is what a search found.
type culprit struct {
	Session content.SessionID `json:"session"`
	Good    uint64            `json:"good"`  // the last entry after which all is well
	Bad     uint64            `json:"bad"`   // the first one after which something is wrong
	Forks   int               `json:"forks"` // how many were checked
	Kinds   []events.Kind     `json:"kinds"` // of the events of Bad, and of the entries between
}

func (c culprit) print(w io.Writer) error {
	kinds := make([]string, len(c.Kinds))
	for i, k := range c.Kinds {
		kinds[i] = string(k)
	}
	_, err := fmt.Fprintf(w, "%s is well after entry %d and wrong after entry %d, which brought: %s\n", c.Session, c.Good, c.Bad, strings.Join(kinds, ", "))
	return err
}

// point is an entry after which the session can be forked.
type point struct {
	seq   uint64
	kinds []events.Kind // since the point before
}

func (b *bisection) search(ctx context.Context, id content.SessionID) (culprit, error) {
	points, err := b.points(ctx, id)
	if err != nil {
		return culprit{}, err
	}
	if len(points) < 2 {
		return culprit{}, fmt.Errorf("session %s has %d entries after which nothing waits or runs: there is nothing to search", id, len(points))
	}
	found := culprit{Session: id}
	well := func(i int) (bool, error) {
		found.Forks++
		return b.well(ctx, id, points[i].seq)
	}
	good, bad := 0, len(points)-1
	switch ok, err := well(bad); {
	case err != nil:
		return found, err
	case ok:
		return found, fmt.Errorf("the check passes after entry %d, the last one: nothing is wrong", points[bad].seq)
	}
	switch ok, err := well(good); {
	case err != nil:
		return found, err
	case !ok:
		return found, fmt.Errorf("the check fails after entry %d already, the first one: the session began wrong", points[good].seq)
	}
	for bad-good > 1 {
		middle := (good + bad) / 2
		ok, err := well(middle)
		switch {
		case err != nil:
			return found, err
		case ok:
			good = middle
		default:
			bad = middle
		}
	}
	found.Good, found.Bad, found.Kinds = points[good].seq, points[bad].seq, points[bad].kinds
	return found, nil
}

// points lists the entries after which no call waits or runs.
func (b *bisection) points(ctx context.Context, id content.SessionID) (out []point, err error) {
	state := loop.New(id)
	var kinds []events.Kind
	for rec, err := range remote(ctx, b.client, id) {
		if err == nil {
			err = rec.Err
		}
		if err != nil {
			return nil, err
		}
		state.Fold(rec.Entry)
		kinds = append(kinds, rec.Entry.Kinds()...)
		if state.Opened && !waits(state) {
			out, kinds = append(out, point{rec.Seq, kinds}), nil
		}
	}
	return out, nil
}

// waits reports whether a fork of the state would ask about a call or run one.
func waits(s *loop.State) bool {
	open := func(c loop.Call) bool { return !c.Answered() }
	return len(s.PendingApprovals()) > 0 || s.Turn != nil && slices.ContainsFunc(s.Turn.Calls, open)
}

// well forks the session after an entry and runs the check.
func (b *bisection) well(ctx context.Context, id content.SessionID, seq uint64) (bool, error) {
	fork := content.SessionID(string(id) + "-at-" + strconv.FormatUint(seq, 10))
	start, done := context.WithTimeout(ctx, b.app.Patience.Answer)
	s, err := b.client.Start(start, client.Options{ID: fork, From: events.EntryRef{Session: id, Seq: seq}})
	done()
	e, refused := errors.AsType[*session.InvalidStateError](err)
	switch {
	case err == nil:
		_ = s.Close(ctx)
	case !refused || e.Reason != commands.ReasonSessionExists:
		return false, err
	}
	run := exec.CommandContext(ctx, "sh", "-c", b.check) //nolint:gosec // the user's own command
	run.Env = append(os.Environ(), "TURNLOG_FORK="+string(fork), "TURNLOG_ENTRY="+strconv.FormatUint(seq, 10))
	run.Stdout, run.Stderr = b.app.Err, b.app.Err
	err = run.Run()
	failed, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err == nil:
		b.app.Hint("entry %d: well", seq)
		return true, nil
	case !exited || failed.ExitCode() < 0 || failed.ExitCode() >= cannotTell: // -1: a signal ended it
		return false, fmt.Errorf("the check of %s cannot tell: %w", fork, err)
	}
	b.app.Hint("entry %d: wrong (%v)", seq, err)
	return false, nil
}

// cannotTell is the first exit code of a check that cannot tell whether something is wrong. The shell's own follow: 126 and 127
// for commands that cannot be run, more for those that a signal ended.
const cannotTell = 125
