package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/backup/move"
	"github.com/turnlog/turnlog/jetstream/schedules"
	"github.com/turnlog/turnlog/jetstream/seals"
)

func moving(a *app.App, r *app.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "move SESSION... --to CONTEXT_OR_URL",
		Short: "Move sessions to another deployment, with their proof",
		Long: `Moves sessions to the deployment of the same name (the target) on other servers. --to is a context of the nats command,
or a URL with a port, for which the same credentials are used. Entries keep their bytes and signatures, so proofs and
anchors stay valid. A tombstone remains in this deployment, and requests for the session get an error that says where it
is.

A session must be at rest: no open turn, queued input, open question or running call. Related sessions must move
together: also name its parent, sub-agents, origin and forks, and first remove the schedules that send input to it.
With --alone they stay, and get an error that the session was moved.

A session is never in both deployments. If the command is interrupted, or the target cannot be reached, run it again:
until it succeeds, the session may be in neither. At the end it removes what it copied, except blobs, which "turnlog
gc" removes.

It does not move agents, notes, policies or the history of schedules. The target's nodes need the tools and the seal key
of the session. If the target has a directory of keys, it must list the drivers of this deployment. Nothing moves if the
seal key or a driver is missing.

It needs the permissions of a keeper and a driver in both deployments, as a user without a name. See docs/moving.md.`,
		Example: `  turnlog sessions move plan-7 --to dublin
  turnlog sessions move plan-7 plan-7-fork --context frankfurt --to nats://n2.example.com:4222 --reason "the customer moved"`,
	}
	r = r.As(admin.RoleKeeper)
	r.Signs(cmd, "the tombstones here and the claims there")
	var d events.SessionDeleted
	to := cmd.Flags().String("to", "", "`context` of the nats command, or URL, of the target's servers")
	_ = cmd.MarkFlagRequired("to") // the flag exists
	cmd.Flags().StringVar(&d.Reason, "reason", "", "`text` to record in the tombstone as the reason")
	alone := cmd.Flags().Bool("alone", false, "do not move related sessions, and keep schedules that send input to the moved ones")
	output := a.Output(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withKeeper(cmd.Context(), r, args, &d, func(ctx context.Context, k keeper, ids []content.SessionID) error {
			there, err := r.At(*to).Open(ctx, r.Program(), r.Logger(), admin.RoleKeeper)
			if err != nil {
				return fmt.Errorf("--to %s: %w", place(*to), err)
			}
			defer there.Close()
			m, err := move.New(ctx, move.Cell{Cell: k.cell.Cell, Place: placeOf(r.Context, k.cell)}, move.Cell{Cell: there.Cell, Place: placeOf(r.At(*to).Context, there)})
			if err != nil {
				return err
			}
			out := movedReport{Sessions: []move.Moved{}}
			var errs []error
			if !*alone {
				if err := k.together(ctx, ids); err != nil {
					return err
				}
			}
			for _, id := range ids {
				done, err := k.move(ctx, m, id, d)
				if err != nil {
					errs = append(errs, there.Advise(err))
					continue
				}
				out.Sessions = append(out.Sessions, done)
			}
			errs = append(errs, output.Print(out, out.print))
			return errors.Join(errs...)
		})
	}
	return cmd
}

// placeOf returns a readable name for the servers of a deployment.
func placeOf(name string, cell *cli.Cell) string {
	return cmp.Or(name, place(cell.Conn.ConnectedUrl()))
}

// place removes credentials from a URL.
func place(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return text
	}
	u.User = nil
	return u.String()
}

// movedReport is what "turnlog sessions move" did.
type movedReport struct {
	Sessions []move.Moved `json:"sessions"`
}

func (r movedReport) print(w io.Writer) error {
	var b strings.Builder
	for _, s := range r.Sessions {
		fmt.Fprintf(&b, "%s %s; %s copied, %s removed\n", s.Session, s.Deletion,
			render.Plural(int(s.Copied), "entry", "entries"), render.Plural(int(s.Removed), "entry", "entries"))
		if s.Sealed {
			fmt.Fprintf(&b, "%s is sealed: the nodes there need its seal key\n", s.Session)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func notMoved(id content.SessionID, why error) error {
	return fmt.Errorf("session %s is not moved: %w", id, why)
}

// move moves a session, or completes a move. If the session has changed, it tries again: its driver may have just parked it.
func (k keeper) move(ctx context.Context, m *move.Mover, id content.SessionID, d events.SessionDeleted) (move.Moved, error) {
	for n := 1; ; n++ {
		head, err := k.movable(ctx, id)
		var done move.Moved
		if err == nil {
			done, err = m.Move(ctx, id, head, d)
		}
		changed := errors.Is(err, move.ErrChanged) || errors.Is(err, errChanged)
		if !changed || n == attempts || !pause.For(ctx, attemptPause) {
			return done, err
		}
	}
}

// movable returns the last entry of a session that is at rest, or whose move must be completed.
func (k keeper) movable(ctx context.Context, id content.SessionID) (journal.Head, error) {
	last, err := k.cell.Journal().Last(ctx, id)
	if errors.Is(err, journal.ErrNotFound) {
		_, _, err = k.client.Read(ctx, id) // for its error text
		return last.Head, app.NoSession(id, err)
	}
	if _, gone := events.DeletionOf(last.Entry); gone || err != nil {
		return last.Head, err
	}
	state, err := k.resting(ctx, last, notMoved)
	if err == nil && state != nil && len(state.PendingApprovals()) > 0 {
		err = notMoved(id, fmt.Errorf("a question is open: decide it first (\"turnlog approvals ls %s\")", id))
	}
	return last.Head, err
}

// together returns an error if a related session or schedule would not be moved: one that refers to the sessions, or a
// session that they refer to.
func (k keeper) together(ctx context.Context, ids []content.SessionID) error {
	origins, err := k.client.Origins(ctx)
	if err != nil {
		return err
	}
	all, err := schedules.Of(k.cell.Cell).List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		last, err := k.cell.Journal().Last(ctx, id)
		if _, gone := events.DeletionOf(last.Entry); gone || err != nil {
			continue // its move must be completed, or move reports what is wrong
		}
		children, err := seals.Of(k.cell.Cell).Children(ctx, id) // this user may not be able to open their journals
		if err != nil {
			return err
		}
		kin := relatives(id, origins)
		for _, c := range children {
			kin[c] = "its sub-agent"
		}
		maps.DeleteFunc(kin, func(s content.SessionID, _ string) bool { return slices.Contains(ids, s) })
		var list []string
		for _, s := range slices.Sorted(maps.Keys(kin)) {
			list = append(list, kin[s]+" "+string(s))
		}
		if len(list) > 0 {
			errs = append(errs, notMoved(id, fmt.Errorf("other sessions belong to it: %s: name them, too, or leave them with --alone", strings.Join(list, ", "))))
		}
		for _, s := range all {
			if s.Session == id {
				errs = append(errs, notMoved(id, fmt.Errorf("the schedule %s sends to it: remove it (\"turnlog schedule rm\"), or leave it with --alone", s.Name)))
			}
		}
	}
	return errors.Join(errs...)
}

// relatives returns the sessions of the deployment that a session refers to or that refer to it, and how they are related.
func relatives(id content.SessionID, origins map[content.SessionID]client.Origin) map[content.SessionID]string {
	kin := map[content.SessionID]string{}
	for s, o := range origins {
		switch id {
		case o.From:
			kin[s] = "its fork"
		case o.Parent:
			kin[s] = "its sub-agent"
		}
	}
	for s, what := range map[content.SessionID]string{origins[id].From: "its origin", origins[id].Parent: "its parent"} {
		if _, there := origins[s]; there {
			kin[s] = what
		}
	}
	return kin
}
