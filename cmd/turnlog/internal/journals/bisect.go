package journals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/procgroup"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

// Bisect returns the command that finds the entry at which a session starts to go wrong.
func Bisect(a *app.App) *cobra.Command {
	b := bisection{app: a}
	cmd := &cobra.Command{
		Use:   "bisect SESSION",
		Short: "Find the first entry of a session after which a check fails",
		Long: `Finds the first entry of a session after which a command fails, by binary search: it forks the session after an entry,
runs the command on the fork, and continues in the half that has the first failure. This assumes that once the
command fails, it also fails after all later entries.

sh runs the command, with TURNLOG_FORK, the ID of the fork, and TURNLOG_ENTRY, the sequence of the entry. Exit code 0
means good, 1 to 124 means bad. Any other code, a signal, or a timeout (--timeout) ends the search without a result.
The command can send input to the fork, which is an ordinary session. Processes that it leaves running are killed. After
an entry in the middle of a turn, the fork first completes that turn, with new replies of the model; then the command
runs. If the turn needs approval, the search ends.

It tries only entries after which no call is waiting or running, since a fork would run such calls. Forks are kept, under
the name SESSION-at-ENTRY-CHECK, where CHECK is derived from --check. A repeated search reuses the forks of the same
command, unless they got other input; then the next fork is SESSION-at-ENTRY-CHECK-2. Two searches of the same user with
the same session and command cannot run at the same time on one machine.`,
		Example: `  turnlog bisect plan-7 --check 'turnlog send --wait $TURNLOG_FORK "Which database do we use?" | grep -q Postgres'
  turnlog bisect plan-7 --check './check.sh' -o json`,
	}
	cmd.Flags().StringVar(&b.check, "check", "", "`command` that exits with 0 for a good fork, and with 1 to 124 for a bad one")
	_ = cmd.MarkFlagRequired("check") // the flag exists
	cmd.Flags().DurationVar(&b.timeout, "timeout", 10*time.Minute, "`time` limit for the turn of a fork, and for its check")
	output := a.Output(cmd)
	r := a.RemoteClient(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := cli.ParseSession(args[0])
		if err != nil {
			return err
		}
		if b.timeout <= 0 {
			return cli.Usage("--timeout %v: use a positive time", b.timeout)
		}
		return r.Do(cmd.Context(), func(ctx context.Context, cell *cli.Cell, c *client.Client) error {
			b.client = c
			unlock, err := b.claim(cell.Conn.ConnectedUrl(), id)
			if err != nil {
				return err
			}
			defer unlock()
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

	timeout time.Duration // of a fork's turn, and of its check
}

// digest returns a short hash that represents texts in names.
func digest(texts ...string) string {
	return events.HashOf([]byte(strings.Join(texts, "\x00"))).String()[:8]
}

// claim prevents two identical searches at the same time: the check of one would see what the other sends to a fork.
// The lock file is never removed. Otherwise two searches could lock two different files.
func (b *bisection) claim(deployment string, id content.SessionID) (unlock func(), err error) {
	dir := filepath.Join(cmp.Or(b.app.StateDir(), os.TempDir()), "bisect")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("lock the search: %w: set XDG_STATE_HOME to a directory that this user can write", err)
	}
	lock := flock.New(filepath.Join(dir, digest(deployment, string(id), b.check)))
	locked, err := lock.TryLock()
	switch {
	case err != nil:
		return nil, fmt.Errorf("lock the search: %w", err)
	case !locked:
		return nil, fmt.Errorf("this search of session %s runs already, with the same command: wait for its end", id)
	}
	return func() { _ = lock.Close() }, nil
}

// culprit is the result of a search.
type culprit struct {
	Session content.SessionID `json:"session"`
	Good    uint64            `json:"good"`  // the last entry after which the check passes
	Bad     uint64            `json:"bad"`   // the first one after which something is wrong
	Forks   int               `json:"forks"` // how many were checked
	Kinds   []events.Kind     `json:"kinds"` // of the events in Bad and in the entries after Good
}

func (c culprit) print(w io.Writer) error {
	kinds := make([]string, len(c.Kinds))
	for i, k := range c.Kinds {
		kinds[i] = string(k)
	}
	_, err := fmt.Fprintf(w, "%s: the check passes after entry %d and fails after entry %d, which added: %s\n", c.Session, c.Good, c.Bad, strings.Join(kinds, ", "))
	return err
}

// point is an entry after which the session can be forked.
type point struct {
	seq   uint64
	kinds []events.Kind // since the previous point
}

func (b *bisection) search(ctx context.Context, id content.SessionID) (culprit, error) {
	points, err := b.points(ctx, id)
	if err != nil {
		return culprit{}, err
	}
	if len(points) < 2 {
		return culprit{}, fmt.Errorf("session %s has %d entries after which no call waits or runs: bisect needs at least 2", id, len(points))
	}
	found := culprit{Session: id}
	passes := func(i int) (bool, error) {
		found.Forks++
		return b.passes(ctx, id, points[i].seq)
	}
	good, bad := 0, len(points)-1
	switch ok, err := passes(bad); {
	case err != nil:
		return found, err
	case ok:
		return found, fmt.Errorf("the check passes after entry %d, the last one: no entry makes it fail", points[bad].seq)
	}
	switch ok, err := passes(good); {
	case err != nil:
		return found, err
	case !ok:
		return found, fmt.Errorf("the check already fails after entry %d, the first one: no entry passes", points[good].seq)
	}
	for bad-good > 1 {
		middle := (good + bad) / 2
		ok, err := passes(middle)
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

// waits reports whether a fork of the state would ask about a call or run a call.
func waits(s *loop.State) bool {
	open := func(c loop.Call) bool { return !c.Answered() }
	return len(s.PendingApprovals()) > 0 || s.Turn != nil && slices.ContainsFunc(s.Turn.Calls, open)
}

// passes runs the check for a fork of the session after an entry, once the fork's turn has ended.
func (b *bisection) passes(ctx context.Context, id content.SessionID, seq uint64) (bool, error) {
	s, err := b.fork(ctx, events.EntryRef{Session: id, Seq: seq})
	if err != nil {
		return false, err
	}
	err = b.settle(ctx, s)
	_ = s.Close(context.WithoutCancel(ctx))
	if err != nil {
		return false, err
	}
	limited, done := context.WithTimeout(ctx, b.timeout)
	defer done()
	state, err := procgroup.Run(limited, procgroup.Command{
		Args: []string{"sh", "-c", b.check}, Env: append(os.Environ(), "TURNLOG_FORK="+string(s.ID()), "TURNLOG_ENTRY="+strconv.FormatUint(seq, 10)),
		Output: struct{ io.Writer }{b.app.Err}, Grace: time.Second, // Run would close a file
	})
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err != nil:
		return false, fmt.Errorf("run the check: %w", err)
	case !state.Success() && limited.Err() != nil:
		return false, fmt.Errorf("the check of %s did not end within %v: give it more time with --timeout", s.ID(), b.timeout)
	case state.ExitCode() < 0 || state.ExitCode() >= noResult: // -1: a signal ended it
		return false, fmt.Errorf("the check of %s has no result: %v: exit with 0 for good or 1 to 124 for bad", s.ID(), state)
	case state.Success():
		b.app.Hint("entry %d: good", seq)
		return true, nil
	}
	b.app.Hint("entry %d: bad (%v)", seq, state)
	return false, nil
}

// fork returns a fork after an entry to which nothing was sent: the fork of an earlier search with this check, or a new one.
func (b *bisection) fork(ctx context.Context, at events.EntryRef) (*session.Session, error) {
	ctx, done := context.WithTimeout(ctx, b.app.Patience.Answer)
	defer done()
	for n := 1; ; n++ {
		id := content.SessionID(fmt.Sprintf("%s-at-%d-%s", at.Session, at.Seq, digest(b.check)))
		if n > 1 {
			id += content.SessionID(fmt.Sprintf("-%d", n))
		}
		switch fresh, taken, err := b.known(ctx, id, at); {
		case err != nil:
			return nil, err
		case fresh:
			return b.client.Attach(ctx, id)
		case !taken:
			return b.client.Start(ctx, client.Options{ID: id, From: at})
		}
	}
}

// sent lists the events that show that something was sent to an open session.
var sent = []events.Kind{ //nolint:gochecknoglobals // a constant
	events.KindInputQueued, events.KindTaskStarted, events.KindCancelRequested, events.KindModelSwitched, events.KindToolsAllowed,
	events.KindSessionClosed, events.KindSessionDeleted,
}

// known looks up a session ID. taken: the session exists, or existed. fresh: it is a fork after the entry, and nothing was sent to it.
func (b *bisection) known(ctx context.Context, id content.SessionID, at events.EntryRef) (fresh, taken bool, err error) {
	for rec, err := range b.client.Records(ctx, id, 0) {
		if err == nil {
			err = rec.Err
		}
		if err != nil {
			return false, true, fmt.Errorf("read %s: %w", id, err)
		}
		opens := slices.ContainsFunc(rec.Entry.Events, func(ev events.Event) bool {
			opened, ok := ev.(events.RunStarted)
			from, err := events.ParseEntryRef(opened.From)
			fresh = fresh || ok && err == nil && from.Place() == at.Place()
			return ok
		})
		changed := slices.ContainsFunc(rec.Entry.Kinds(), func(k events.Kind) bool { return slices.Contains(sent, k) })
		fresh, taken = fresh && (opens || !changed), taken || opens || changed
	}
	return fresh, taken, nil
}

// settle waits for the end of the turn that a fork continues. If it stops waiting, the turn continues.
func (b *bisection) settle(ctx context.Context, s *session.Session) error {
	turn := s.Latest()
	if turn == nil || turn.Result() != nil {
		return nil
	}
	limited, done := context.WithTimeout(ctx, b.timeout)
	defer done()
	defer context.AfterFunc(limited, turn.Close)()
	_, err := turn.Wait(context.WithoutCancel(ctx))
	asks, waits := errors.AsType[*session.ApprovalPendingError](err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case turn.Result() != nil: // the check sees how it ended
		return nil
	case waits:
		return fmt.Errorf("the turn of %s waits: %w: decide with \"turnlog approvals ls %s\", and run the command again, which waits for its end", s.ID(), asks, s.ID())
	case limited.Err() != nil:
		return fmt.Errorf("the turn of %s has not ended within %v: run the command again, which waits for it", s.ID(), b.timeout)
	}
	return fmt.Errorf("the turn of %s: %w", s.ID(), err)
}

// noResult is the first exit code of a check without a verdict. The shell uses the codes after it: 126 and 127
// for commands that cannot be run, and higher codes for commands that a signal ended.
const noResult = 125
