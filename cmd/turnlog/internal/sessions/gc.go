package sessions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// GC returns the command that deletes old sessions and unused blobs.
func GC(a *app.App) *cobra.Command {
	var keep retention
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Delete old sessions and unused blobs",
		Long: `Lists what can be deleted, and with --delete deletes it:

- sessions without a new entry for longer than --older-than,
- the sessions that were idle longest, until the rest has at most --keep-bytes,
- the remains of interrupted deletions,
- blobs that are older than --grace and that nothing refers to.

It deletes only sessions at rest: no turn is open, nothing is queued or running in the background, and
for --keep-bytes they were idle for at least --idle. Each leaves its tombstone, which "observer
verify" reports as expired, not as tampered with. --keep-bytes counts the bytes of entries as they
were written, without files and long outputs, which sessions may share. Disk usage is lower if the
server compresses, and higher until it has compacted.

It reads all journals once. Running two at the same time is safe, and only repeats some work. Run it
regularly, for example from cron. It needs the permissions of a keeper. See docs/operations.md.`,
		Example: `  turnlog gc
  turnlog gc --older-than 90d
  turnlog gc --older-than 90d --keep-bytes 50GiB --delete -o json`,
	}
	fs := cmd.Flags()
	age := fs.String("older-than", "", "delete sessions without a new entry for longer than this `time`: 90d, 12h")
	size := fs.String("keep-bytes", "", "delete the sessions that were idle longest until the rest has at most this many `bytes`: 500MB, 50GiB")
	idle := fs.String("idle", "7d", "with --keep-bytes, keep sessions that were idle for less than this `time`: 7d, 12h")
	fs.BoolVar(&keep.remove, "delete", false, "delete what is listed; without this nothing is changed")
	grace := graceFlag(cmd)
	output := a.Output(cmd)
	r := a.Remote(cmd, admin.RoleKeeper)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := errors.Join(checkGrace(*grace), keep.parse(*age, *size, *idle)); err != nil {
			return err
		}
		return r.Do(cmd.Context(), func(ctx context.Context, d *cli.Cell, c *client.Client) error {
			out, err := keeper{d, c, !keep.remove}.collect(ctx, keep, c.Name(), *grace)
			return errors.Join(err, output.Print(out, func(w io.Writer) error { return out.print(w, *grace) }))
		})
	}
	return cmd
}

// retention says which sessions can be deleted.
type retention struct {
	age    time.Duration // 0: of any age
	bytes  uint64        // MaxUint64: of any size
	idle   time.Duration
	remove bool
	why    [2]string // the reasons in tombstones: age, size
}

func (r *retention) parse(age, size, idle string) (err error) {
	r.bytes = math.MaxUint64
	if age != "" {
		if r.age, err = parseAge(age); err != nil {
			return cli.Usage("--older-than: %w", err)
		}
		r.why[0] = "not changed for " + age
	}
	if size != "" {
		if r.bytes, err = humanize.ParseBytes(size); err != nil {
			return cli.Usage("--keep-bytes: %q is not a size: write 500MB or 50GiB", size)
		}
		r.why[1] = "over " + size + " in all"
	}
	if r.idle, err = parseAge(idle); err != nil {
		return cli.Usage("--idle: %w", err)
	}
	return nil
}

// parseAge parses a duration that may be in days.
func parseAge(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n float64
		if n, err = strconv.ParseFloat(days, 64); err == nil && n > math.MaxInt64/float64(24*time.Hour) {
			err = strconv.ErrRange
		}
		d = time.Duration(n * float64(24*time.Hour))
	}
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is not a time: write 90d, 12h or 30m", text)
	}
	return d, nil
}

// pick returns the sessions of held that can be deleted. held is sorted by last change.
func (r *retention) pick(held []admin.Holding, now time.Time) []expired {
	var total uint64
	for _, h := range held {
		total += h.Bytes
	}
	var out []expired
	for _, h := range held {
		var why string
		switch old := now.Sub(h.Changed); {
		case h.Erased:
			continue
		case h.Deleted && h.Entries > 1:
			why = "its deletion was interrupted"
		case h.Deleted:
			continue
		case r.age > 0 && old > r.age:
			why = r.why[0]
		case total > r.bytes && old > r.idle:
			why = r.why[1]
		default:
			continue
		}
		total -= h.Bytes
		out = append(out, expired{Session: h.Session, Changed: content.TimeOf(h.Changed), Entries: h.Entries, Bytes: h.Bytes, Why: why})
	}
	return out
}

// expired is a session that can be deleted.
type expired struct {
	Session content.SessionID `json:"session"`
	Changed content.Time      `json:"changed_at"`
	Entries uint64            `json:"entries"`
	Bytes   uint64            `json:"bytes"`
	Why     string            `json:"why"`
	Kept    string            `json:"kept,omitempty"` // why it was not deleted
}

// gcReport is what "turnlog gc" did, or would do.
type gcReport struct {
	DryRun bool `json:"dry_run"`
	Held   struct {
		Sessions   int    `json:"sessions"`
		Bytes      uint64 `json:"bytes"`
		Tombstones int    `json:"tombstones"`
	} `json:"held"` // before the deletion
	Sessions []expired   `json:"sessions"`
	Blobs    *blobReport `json:"blobs"`
}

func (k keeper) collect(ctx context.Context, keep retention, by string, grace time.Duration) (gcReport, error) {
	out := gcReport{DryRun: k.dry, Sessions: []expired{}, Blobs: &blobReport{}}
	held, err := admin.Of(k.cell.Cell).Holdings(ctx)
	if err != nil {
		return out, err
	}
	for _, h := range held {
		if h.Deleted {
			out.Held.Tombstones++
		} else {
			out.Held.Sessions, out.Held.Bytes = out.Held.Sessions+1, out.Held.Bytes+h.Bytes
		}
	}
	for _, e := range keep.pick(held, time.Now()) {
		_, err := k.remove(ctx, e.Session, e.Entries, events.SessionDeleted{By: by, Reason: e.Why, Expired: true})
		switch {
		case err != nil && ctx.Err() != nil:
			return out, err
		case err != nil:
			e.Kept = err.Error() // the others are still deleted
		}
		out.Sessions = append(out.Sessions, e)
	}
	if !k.dry {
		if _, err := admin.Of(k.cell.Cell).Unlist(ctx); err != nil {
			return out, err
		}
	}
	found, err := admin.Of(k.cell.Cell).Collect(ctx, grace, k.dry)
	out.Blobs = new(blobReport(found))
	return out, err
}

func (r gcReport) print(w io.Writer, grace time.Duration) error {
	gone, size := 0, uint64(0)
	err := app.Table(w, "SESSION LAST_CHANGE ENTRIES SIZE WHY", r.Sessions, func(e expired) []any {
		why := e.Why
		if e.Kept == "" {
			gone, size = gone+1, size+e.Bytes
		} else {
			why = "kept: " + e.Kept
		}
		return []any{e.Session, e.Changed, e.Entries, humanize.IBytes(e.Bytes), why}
	})
	if err != nil {
		return err
	}
	did, note := "deleted", ""
	if r.DryRun {
		did, note = "would be deleted", "Nothing was changed: add --delete to delete them. That also deletes the blobs that only these sessions use.\n"
	}
	_, err = fmt.Fprintf(w, "%d of %d sessions %s, %s of %s\n%s%s", gone, r.Held.Sessions, did, humanize.IBytes(size), humanize.IBytes(r.Held.Bytes), r.Blobs.text(did, grace), note)
	return err
}
