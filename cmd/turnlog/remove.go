package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/loop"
)

// defaultGrace is what a message that names a blob may take behind the blob.
const defaultGrace = time.Hour

// graceFlag adds the flag for the age of blobs that are removed.
func graceFlag(cmd *cobra.Command) *time.Duration {
	return cmd.Flags().Duration("grace", defaultGrace,
		"leave blobs that were stored within this `time`: the message that names one may still be on its way")
}

// minGrace is more than a message takes that is behind its blob in an ordinary deployment.
const minGrace = time.Minute

func checkGrace(d time.Duration) error {
	if d < minGrace {
		return usageError("--grace %v: use %v or more, or blobs are removed before the messages that name them have come", d, minGrace)
	}
	return nil
}

// maxReason bounds a reason: it stays in the journal, and in what is said of it.
const maxReason = 1000

func checkReason(text string) error {
	if len(text) > maxReason {
		return usageError("--reason has %d bytes: at most %d", len(text), maxReason)
	}
	return nil
}

func newSessionsRemoveCommand(a *app, r *remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm SESSION...",
		Aliases: []string{"delete"},
		Short:   "Delete sessions for good",
		Long: `Deletes sessions: a tombstone ends the journal, and then everything else is removed, the entries
before the tombstone, commands, timers, calls, the snapshot, and the blobs that nothing else names.
The id cannot be used again. "observer verify" of a deleted session says when it was deleted, by
whom, and what its journal was: so many entries, the last one with that hash.

A session that is at work, or has something queued, is not deleted: cancel its turn first. What was
begun and did not come to its end is finished by doing it again.

It takes the permissions of a keeper. What remains, on disks and elsewhere, and for how long:
docs/operations.md.`,
		Example: `  turnlog sessions rm plan-7 --reason "the customer asked for it"
  turnlog sessions rm plan-7 plan-8 --keep-blobs && turnlog gc --delete`,
	}
	reason := cmd.Flags().String("reason", "", "`text` that the tombstone gives as the reason")
	keepBlobs := cmd.Flags().Bool("keep-blobs", false, "leave blobs to \"turnlog gc\": to find those that nothing names, all journals are read")
	grace := graceFlag(cmd)
	output := cli.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := cmp.Or(checkGrace(*grace), checkReason(*reason)); err != nil {
			return err
		}
		var ids []content.SessionID
		for _, arg := range args {
			id, err := content.ParseSessionID(arg)
			if err != nil {
				return usageError("%w", err)
			}
			ids = append(ids, id)
		}
		return r.keep(cmd.Context(), func(ctx context.Context, k *keeper) error {
			var out removalReport
			var failed []error
			for _, id := range ids {
				done, err := k.remove(ctx, id, anyLength, events.SessionDeleted{By: a.person(), Reason: *reason})
				if err != nil {
					failed = append(failed, err)
					continue
				}
				out.Sessions = append(out.Sessions, done)
			}
			if len(out.Sessions) > 0 && !*keepBlobs {
				found, err := k.cell.Keeper().Collect(ctx, *grace, false)
				out.Blobs, failed = blobReportOf(found), append(failed, err)
			}
			if output.String() == "json" {
				return errors.Join(append(failed, writeJSON(a.term.out, out))...)
			}
			return errors.Join(append(failed, out.print(a.term.out, *grace))...)
		})
	}
	return cmd
}

// keeper deletes sessions of a deployment.
type keeper struct {
	cell   *cli.Cell
	client *client.Client
}

// keep runs something with the permissions of a keeper, until somebody interrupts.
func (r *remote) keep(ctx context.Context, do func(context.Context, *keeper) error) error {
	as := *r
	as.role = jetstream.RoleKeeper
	return as.do(ctx, func(ctx context.Context, d *cli.Cell, c *client.Client) error { return do(ctx, &keeper{d, c}) })
}

// removal is a session that was deleted.
type removal struct {
	Session content.SessionID `json:"session"`
	events.Deletion
	Removed uint64 `json:"removed_entries"` // now; the others were before
}

// anyLength is for sessions that are deleted however many entries they have.
const anyLength = 0

// errGoneOn is returned for a session that is not what it was when it was looked at.
var errGoneOn = errors.New("it has just gone on")

const (
	looks     = 10 // at a session that goes on each time
	lookPause = 100 * time.Millisecond
)

// remove deletes a session that is at rest and has so many entries, or finishes what
// was begun. One of any length that goes on meanwhile is looked at again: its driver may
// have written no more than that it left.
func (k *keeper) remove(ctx context.Context, id content.SessionID, entries uint64, d events.SessionDeleted) (removal, error) {
	for n := 1; ; n++ {
		out, err := k.tryRemove(ctx, id, entries, d)
		if !errors.Is(err, errGoneOn) || entries != anyLength || n == looks {
			return out, err
		}
		select {
		case <-time.After(lookPause):
		case <-ctx.Done():
			return out, err
		}
	}
}

func (k *keeper) tryRemove(ctx context.Context, id content.SessionID, entries uint64, d events.SessionDeleted) (removal, error) {
	state, head, err := k.client.Read(ctx, id)
	if err != nil {
		return removal{}, noSession(id, err)
	}
	out := removal{Session: id}
	if state.Deleted == nil {
		if entries != anyLength && head.Seq != entries {
			return removal{}, fmt.Errorf("session %s is not deleted: %w", id, errGoneOn)
		}
		if out.Deletion, err = k.bury(ctx, state, head, d); err != nil {
			return removal{}, err
		}
	} else {
		out.Deletion = *state.Deleted
	}
	out.Removed, err = k.cell.Keeper().Clear(ctx, id)
	if err != nil {
		return removal{}, fmt.Errorf("session %s is deleted, but not everything of it is removed: do it again: %w", id, err)
	}
	return out, nil
}

// bury writes the tombstone of a session that is at rest.
func (k *keeper) bury(ctx context.Context, state *loop.State, head journal.Head, d events.SessionDeleted) (events.Deletion, error) {
	id := state.Session
	if why := atWork(state); why != "" {
		return events.Deletion{}, fmt.Errorf("session %s is not deleted: %s", id, why)
	}
	waiting, err := k.cell.Inbox().Read(ctx, id, state.Cursors)
	if err != nil {
		return events.Deletion{}, err
	}
	if len(waiting) > 0 {
		return events.Deletion{}, fmt.Errorf("session %s is not deleted: %s for it", id, render.Plural(len(waiting), "command waits", "commands wait"))
	}
	last := journal.Record{Head: head, Entry: events.Entry{Session: id, At: state.At, Epoch: state.Epoch}}
	done, err := k.cell.Keeper().Delete(ctx, last, d)
	switch {
	case errors.Is(err, journal.ErrConflict):
		return done, fmt.Errorf("session %s is not deleted: %w", id, errGoneOn)
	case errors.Is(err, journal.ErrUnknown):
		return done, fmt.Errorf("session %s may be deleted or not: do it again: %w", id, err)
	}
	return done, err
}

// atWork says why a session cannot be deleted now; "": it can.
func atWork(s *loop.State) string {
	switch {
	case s.Turn != nil:
		return fmt.Sprintf("%s is open: wait for its end, or \"turnlog cancel %s\" first", s.Turn.ID, s.Session)
	case len(s.Queue) > 0 || s.Task != nil:
		return "input is queued: wait until it is handled"
	case slices.ContainsFunc(s.Background, loop.Call.Running):
		return fmt.Sprintf("calls run in the background: wait for them, or cancel each (\"turnlog calls %s\")", s.Session)
	case !s.Closed && loop.Waiting(s) != commands.WaitInput:
		return "it is at work"
	}
	return ""
}

// removalReport is what "turnlog sessions rm" did.
type removalReport struct {
	Sessions []removal   `json:"sessions"`
	Blobs    *blobReport `json:"blobs,omitempty"`
}

// blobReport is what became of blobs that nothing names.
type blobReport struct {
	Checked int    `json:"checked"`
	Removed int    `json:"removed"`
	Bytes   uint64 `json:"bytes"`
	Young   int    `json:"young"`
	Parts   int    `json:"parts"`
}

func blobReportOf(c jetstream.Collected) *blobReport {
	return &blobReport{Checked: c.Blobs, Removed: c.Removed, Bytes: c.Bytes, Young: c.Young, Parts: c.Parts}
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
	return r.Blobs.print(w, "removed", grace)
}

func (b *blobReport) print(w io.Writer, what string, grace time.Duration) error {
	_, err := fmt.Fprintf(w, "%d of %d blobs %s, %s\n", b.Removed, b.Checked, what, inBytes(b.Bytes))
	if b.Parts > 0 {
		_, more := fmt.Fprintf(w, "%s %s\n", render.Plural(b.Parts, "unfinished blob", "unfinished blobs"), what)
		err = errors.Join(err, more)
	}
	if b.Young > 0 {
		_, more := fmt.Fprintf(w, "%s younger than %v: \"turnlog gc --delete\" removes them later\n",
			render.Plural(b.Young, "blob that nothing names is", "blobs that nothing names are"), grace)
		err = errors.Join(err, more)
	}
	return err
}

// inBytes writes a size for people.
func inBytes(n uint64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	x, i := float64(n), 0
	for ; x >= 1024 && i < len(units)-1; i++ {
		x /= 1024
	}
	if i == 0 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f %s", x, units[i])
}
