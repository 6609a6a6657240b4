package sessions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/seals"
	"github.com/turnlog/turnlog/loop"
)

func erase(a *app.App, r *app.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "erase SESSION...",
		Short: "Erase the content of sealed sessions, and keep the proof",
		Long: `Erases the content of sessions that were started with --seal, and of their sub-agents. It ends the journal
with a tombstone, then destroys the key of the content. The encrypted entries stay, so "observer verify" can
still prove their chain, signatures and place in the log of heads. The ID cannot be used again.

It does not erase a session that is working or has queued input: cancel its turn first. To complete an
interrupted erasure, run the command again.

It needs the permissions of a keeper. It needs the seal key only for a session that its driver did not leave at
rest. Backups may have copies of the destroyed key, encrypted with the seal key: see "turnlog seal". See
docs/evidence.md for what an erasure does not cover.`,
		Example: `  turnlog sessions erase plan-7 --reason "Art. 17 request 2027-114"`,
	}
	r = r.As(admin.RoleKeeper)
	d := events.SessionDeleted{Erased: true}
	cmd.Flags().StringVar(&d.Reason, "reason", "", "`text` to record in the tombstone as the reason; it is not erased")
	output := a.Output(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withKeeper(cmd.Context(), r, args, &d, func(ctx context.Context, k keeper, ids []content.SessionID) error {
			out := erasedReport{Sessions: []erasure{}}
			var errs []error
			for _, id := range ids {
				done, err := k.erase(ctx, id, d)
				out.Sessions, errs = append(out.Sessions, done...), append(errs, err)
			}
			errs = append(errs, output.Print(out, out.print))
			return errors.Join(errs...)
		})
	}
	return cmd
}

// erasure is a session whose content was erased.
type erasure struct {
	Session content.SessionID `json:"session"`
	events.Deletion
}

// erasedReport is what "turnlog sessions erase" did.
type erasedReport struct {
	Sessions []erasure `json:"sessions"`
}

func (r erasedReport) print(w io.Writer) error {
	for _, s := range r.Sessions {
		if _, err := fmt.Fprintf(w, "%s %s\n", s.Session, s.Deletion); err != nil {
			return err
		}
	}
	return nil
}

// erase erases a session, after the sub-agent sessions that worked for it: they can be found only while the session's key
// exists. Nothing is erased unless all of them are at rest.
func (k keeper) erase(ctx context.Context, id content.SessionID, d events.SessionDeleted) (done []erasure, err error) {
	all, err := seals.Of(k.cell.Cell).Children(ctx, id)
	if err != nil {
		return nil, err
	}
	all = append(slices.Clip(all), id)
	ends := make([]journal.Record, len(all))
	for i, s := range all {
		if ends[i], err = k.erasable(ctx, s); err != nil && (s == id || !errors.Is(err, journal.ErrNotFound)) {
			return nil, app.NoSession(s, err)
		}
	}
	keeper := admin.Of(k.cell.Cell)
	for i, s := range all {
		gone, deleted := events.DeletionOf(ends[i].Entry)
		if !deleted && ends[i].Seq > 0 {
			gone, err = keeper.Delete(ctx, ends[i], d)
			switch {
			case errors.Is(err, journal.ErrConflict):
				return done, notErased(s, errChanged)
			case errors.Is(err, journal.ErrUnknown):
				return done, fmt.Errorf("session %s may or may not be erased: run the command again: %w", s, err)
			case err != nil:
				return done, err
			}
		}
		if err := keeper.Erase(ctx, s); err != nil {
			return done, fmt.Errorf("session %s: the erasure is not complete: run the command again: %w", s, err)
		}
		if ends[i].Seq > 0 {
			done = append(done, erasure{s, gone})
		}
	}
	return done, nil
}

func notErased(id content.SessionID, why error) error {
	return fmt.Errorf("session %s is not erased: %w", id, why)
}

// erasable returns the last entry of a session that can be erased, or whose erasure can be completed. If this user cannot
// open the session, only what its driver wrote in the clear says whether it is at rest.
func (k keeper) erasable(ctx context.Context, id content.SessionID) (journal.Record, error) {
	last, err := k.cell.Journal().Last(ctx, id)
	if err != nil {
		return last, err
	}
	if gone, deleted := events.DeletionOf(last.Entry); deleted {
		if !gone.Erased {
			return last, notErased(id, fmt.Errorf("it %s", gone))
		}
		return last, nil
	}
	if last.Entry.Sealing == nil {
		return last, notErased(id, fmt.Errorf("it is not sealed, so its content cannot be erased alone: \"turnlog sessions rm %s\" deletes all of it", id))
	}
	_, err = k.resting(ctx, last, notErased)
	return last, err
}

// resting returns the state of a session that is at rest after its last entry, or nil if this user cannot open it. not
// builds the error that says why it is not at rest.
func (k keeper) resting(ctx context.Context, last journal.Record, not func(content.SessionID, error) error) (*loop.State, error) {
	id, kinds := last.Entry.Session, last.Entry.Kinds()
	state, head, err := k.client.Read(ctx, id)
	switch _, closed := errors.AsType[*events.SealedError](err); {
	case closed && len(kinds) > 0 && kinds[len(kinds)-1] == events.KindParked:
		return nil, nil //nolint:nilnil // documented above
	case closed:
		return nil, not(id, errors.New("without its seal key (--seal-key) it cannot be seen whether it is at rest"))
	case err != nil:
		return nil, err
	case head.Seq != last.Seq:
		return nil, not(id, errChanged)
	}
	if err := k.atRest(ctx, state); err != nil {
		return nil, not(id, err)
	}
	return state, nil
}
