package sessions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/loop"
)

// Bounds of the flag --grace. A message that refers to a blob arrives after the blob. In
// an ordinary deployment this takes much less than a minute.
const (
	defaultGrace = time.Hour
	minGrace     = time.Minute
)

// graceFlag adds the flag for the minimum age of blobs that are removed.
func graceFlag(cmd *cobra.Command) *time.Duration {
	return cmd.Flags().Duration("grace", defaultGrace,
		"keep blobs that were stored within this `time`: the message that refers to one may not have arrived yet")
}

func checkGrace(d time.Duration) error {
	if d < minGrace {
		return cli.Usage("--grace %v: use %v or more, or blobs are removed before the messages that refer to them arrive", d, minGrace)
	}
	return nil
}

// maxReason bounds a reason: it stays in the journal.
const maxReason = 1000

func checkReason(text string) error {
	if len(text) > maxReason {
		return cli.Usage("--reason has %d bytes: at most %d", len(text), maxReason)
	}
	return nil
}

// withKeeper runs a command that gives sessions a tombstone. The tombstone names the user who runs it.
func withKeeper(ctx context.Context, r *app.Remote, args []string, d *events.SessionDeleted, do func(context.Context, keeper, []content.SessionID) error) error {
	if err := checkReason(d.Reason); err != nil {
		return err
	}
	ids, err := cli.ParseSessions(args)
	if err != nil {
		return err
	}
	return r.Do(ctx, func(ctx context.Context, cell *cli.Cell, c *client.Client) error {
		d.By = c.Name()
		return do(ctx, keeper{cell, c, false}, ids)
	})
}

func remove(a *app.App, r *app.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm SESSION...",
		Aliases: []string{"delete"},
		Short:   "Delete sessions permanently",
		Long: `Deletes sessions permanently. It ends the journal with a tombstone, then removes the entries before it,
commands, timers, calls, the snapshot, and the blobs that nothing else refers to. The ID cannot be used again.
"observer verify" of a deleted session shows when it was deleted and by whom, how many entries it had, and the
hash of the last one.

It does not delete a session that is working or has queued input: cancel its turn first. To complete an
interrupted deletion, run the command again.

Forks of a session contain its history up to the fork. A session with forks is deleted only with --with-forks,
which first deletes all forks and their forks, or with --keep-forks, which keeps them. If one of the forks cannot
be deleted, none is.

It needs the permissions of a keeper. For a user with a name, a node writes the tombstone. docs/operations.md
describes what remains, where and for how long.`,
		Example: `  turnlog sessions rm plan-7 --reason "the customer asked for it"
  turnlog sessions rm plan-7 plan-8 --keep-blobs && turnlog gc --delete`,
	}
	r = r.As(admin.RoleKeeper)
	var d events.SessionDeleted
	cmd.Flags().StringVar(&d.Reason, "reason", "", "`text` to record in the tombstone as the reason")
	keepBlobs := cmd.Flags().Bool("keep-blobs", false, "leave blobs to \"turnlog gc\", since finding the unused ones means reading all journals")
	withForks := cmd.Flags().Bool("with-forks", false, "also delete the forks of the sessions")
	keepForks := cmd.Flags().Bool("keep-forks", false, "keep the forks of the sessions, with their history")
	cmd.MarkFlagsMutuallyExclusive("with-forks", "keep-forks")
	grace := graceFlag(cmd)
	output := a.Output(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkGrace(*grace); err != nil {
			return err
		}
		return withKeeper(cmd.Context(), r, args, &d, func(ctx context.Context, k keeper, ids []content.SessionID) error {
			var out removalReport
			groups, errs, err := k.groups(ctx, ids, *withForks, *keepForks)
			if err != nil {
				return err
			}
			left := map[content.SessionID]bool{}
			for _, all := range groups {
				done, err := k.removeAll(ctx, all, d, left)
				out.Sessions, errs = append(out.Sessions, done...), append(errs, err)
			}
			if len(out.Sessions) > 0 && !*keepBlobs {
				found, err := admin.Of(k.cell.Cell).Collect(ctx, *grace, false)
				out.Blobs, errs = new(blobReport(found)), append(errs, err)
			}
			errs = append(errs, output.Print(out, func(w io.Writer) error { return out.print(w, *grace) }))
			return errors.Join(errs...)
		})
	}
	return cmd
}

// groups returns what to delete for each session: its forks, unless they are kept, and then the session. It returns an
// error for each session with forks if neither with nor keep is set. A session with a tombstone does not count as a fork
// and may have forks: its deletion is completed.
func (k keeper) groups(ctx context.Context, ids []content.SessionID, with, keep bool) (groups [][]content.SessionID, errs []error, err error) {
	forks := map[content.SessionID][]content.SessionID{}
	if !keep {
		if forks, err = k.client.Forks(ctx); err != nil {
			return nil, nil, err
		}
	}
	var add func(all []content.SessionID, seen map[content.SessionID]bool, id content.SessionID) []content.SessionID
	add = func(all []content.SessionID, seen map[content.SessionID]bool, id content.SessionID) []content.SessionID {
		seen[id] = true
		for _, f := range forks[id] {
			if !seen[f] && (with || slices.Contains(ids, f)) {
				all = add(all, seen, f)
			}
		}
		return append(all, id)
	}
	for _, id := range ids {
		var others []string
		for _, f := range forks[id] {
			if with || slices.Contains(ids, f) {
				continue
			}
			switch gone, err := k.hasTombstone(ctx, f); {
			case err != nil:
				return nil, nil, err
			case !gone:
				others = append(others, string(f))
			}
		}
		if len(others) > 0 {
			switch gone, err := k.hasTombstone(ctx, id); {
			case err != nil:
				return nil, nil, app.NoSession(id, err)
			case !gone:
				errs = append(errs, notDeleted(id, fmt.Errorf("it has forks, which contain its history: %s: --with-forks deletes them, too, --keep-forks keeps them", strings.Join(others, ", "))))
				continue
			}
		}
		groups = append(groups, add(nil, map[content.SessionID]bool{}, id))
	}
	return groups, errs, nil
}

// hasTombstone reports whether a session has a tombstone.
func (k keeper) hasTombstone(ctx context.Context, id content.SessionID) (bool, error) {
	last, err := k.cell.Journal().Last(ctx, id)
	_, gone := events.DeletionOf(last.Entry)
	return gone, err
}

// removeAll deletes a session after its forks, or none of them if one cannot be deleted. left says of each
// session that was tried before whether it still exists.
func (k keeper) removeAll(ctx context.Context, all []content.SessionID, d events.SessionDeleted, left map[content.SessionID]bool) (done []removal, err error) {
	last := all[len(all)-1]
	all = slices.DeleteFunc(all, func(id content.SessionID) bool {
		is, tried := left[id]
		return tried && !is
	})
	fails := func(id content.SessionID, err error) error {
		if left[id] {
			err = nil // it was reported
		}
		left[id] = true
		if id != last {
			left[last], err = true, errors.Join(err, notDeleted(last, fmt.Errorf("its fork %s is not deleted", id)))
		}
		return err
	}
	for _, id := range all {
		if _, err := (keeper{k.cell, k.client, true}).remove(ctx, id, anyLength, d); err != nil {
			return nil, fails(id, err)
		}
	}
	for _, id := range all {
		r, err := k.remove(ctx, id, anyLength, d)
		if err != nil {
			return done, fails(id, err)
		}
		left[id], done = false, append(done, r)
	}
	return done, nil
}

// keeper deletes sessions of a deployment.
type keeper struct {
	cell   *cli.Cell
	client *client.Client
	dry    bool // only check whether a session could be deleted
}

// removal is a session that was deleted.
type removal struct {
	Session content.SessionID `json:"session"`
	events.Deletion
	Removed uint64 `json:"removed_entries"` // by this command
}

// anyLength deletes a session with any number of entries.
const anyLength = 0

// errChanged is returned for a session that changed after it was examined.
var errChanged = errors.New("it has just changed")

const (
	attempts     = 10
	attemptPause = 100 * time.Millisecond
)

// remove deletes a session at rest that has this many entries, or completes a deletion.
// With anyLength it retries if the session has changed: its driver may have just parked
// it.
func (k keeper) remove(ctx context.Context, id content.SessionID, entries uint64, d events.SessionDeleted) (removal, error) {
	for n := 1; ; n++ {
		out, err := k.tryRemove(ctx, id, entries, d)
		if !errors.Is(err, errChanged) || entries != anyLength || n == attempts || !pause.For(ctx, attemptPause) {
			return out, err
		}
	}
}

func (k keeper) tryRemove(ctx context.Context, id content.SessionID, entries uint64, d events.SessionDeleted) (removal, error) {
	state, head, err := k.client.Read(ctx, id)
	if err != nil {
		return removal{}, app.NoSession(id, err)
	}
	out := removal{Session: id}
	switch {
	case state.Deleted != nil:
		out.Deletion = *state.Deleted
	case entries != anyLength && head.Seq != entries:
		return out, notDeleted(id, errChanged)
	default:
		if out.Deletion, err = k.writeTombstone(ctx, state, head, d); err != nil {
			return out, err
		}
	}
	if k.dry {
		return out, nil
	}
	out.Removed, err = admin.Of(k.cell.Cell).Clear(ctx, id)
	if err != nil {
		return out, fmt.Errorf("session %s is deleted, but not all of its data is removed: run the command again: %w", id, err)
	}
	return out, nil
}

func notDeleted(id content.SessionID, why error) error {
	return fmt.Errorf("session %s is not deleted: %w", id, why)
}

// writeTombstone writes the tombstone of a session at rest.
func (k keeper) writeTombstone(ctx context.Context, state *loop.State, head journal.Head, d events.SessionDeleted) (done events.Deletion, err error) {
	id := state.Session
	if err := k.atRest(ctx, state); err != nil {
		return done, notDeleted(id, err)
	}
	if k.dry {
		return done, nil
	}
	last := journal.Record{Head: head, Entry: events.Entry{Session: id, At: state.At, Epoch: state.Epoch}}
	done, err = admin.Of(k.cell.Cell).Delete(ctx, last, d)
	switch {
	case errors.Is(err, journal.ErrConflict):
		return done, notDeleted(id, errChanged)
	case errors.Is(err, journal.ErrUnknown):
		return done, fmt.Errorf("session %s may or may not be deleted: run the command again: %w", id, err)
	}
	return done, err
}

// atRest returns why a session cannot be deleted now, or nil.
func (k keeper) atRest(ctx context.Context, s *loop.State) error {
	switch {
	case s.Turn != nil:
		return fmt.Errorf("%s is open: wait for its end, or \"turnlog cancel %s\" first", s.Turn.ID, s.Session)
	case len(s.Queue) > 0 || s.Task != nil:
		return errors.New("input is queued: wait until it is handled")
	case slices.ContainsFunc(s.Background, loop.Call.Running):
		return fmt.Errorf("calls run in the background: wait for them, or cancel each (\"turnlog calls %s\")", s.Session)
	case !s.Closed && loop.Waiting(s) != commands.WaitInput:
		return errors.New("it is working")
	}
	pending, err := k.client.InputPending(ctx, s.Session)
	if pending {
		return errors.New("input is pending: wait until it is handled")
	}
	return err
}

// removalReport is what "turnlog sessions rm" did.
type removalReport struct {
	Sessions []removal   `json:"sessions"`
	Blobs    *blobReport `json:"blobs,omitempty"`
}

// blobReport counts unused blobs.
type blobReport struct {
	Blobs   int    `json:"checked"`
	Removed int    `json:"removed"`
	Bytes   uint64 `json:"bytes"`
	Young   int    `json:"young"`
	Parts   int    `json:"parts"`
}

func (r removalReport) print(w io.Writer, grace time.Duration) error {
	for _, s := range r.Sessions {
		if _, err := fmt.Fprintf(w, "%s %s; %s removed\n", s.Session, s.Deletion, render.Plural(int(s.Removed), "entry", "entries")); err != nil {
			return err
		}
	}
	if r.Blobs == nil {
		return nil
	}
	_, err := io.WriteString(w, r.Blobs.text("removed", grace))
	return err
}

func (b *blobReport) text(did string, grace time.Duration) string {
	text := fmt.Sprintf("%d of %d blobs %s, %s\n", b.Removed, b.Blobs, did, humanize.IBytes(b.Bytes))
	if b.Parts > 0 {
		text += fmt.Sprintf("%s %s\n", render.Plural(b.Parts, "unfinished blob", "unfinished blobs"), did)
	}
	if b.Young > 0 {
		text += fmt.Sprintf("%s younger than %v: \"turnlog gc --delete\" removes them later\n",
			render.Plural(b.Young, "blob that nothing names is", "blobs that nothing names are"), grace)
	}
	return text
}
