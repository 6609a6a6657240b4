package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
)

func newGCCommand(a *app) *cobra.Command {
	var keep retention
	var age, size, idle string
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Delete what need not be kept: old sessions, blobs that nothing names",
		Long: `Says what need not be kept any more, and with --delete removes it:

- sessions of which nothing was recorded for longer than --older-than,
- the sessions that were idle longest, while all together hold more than --keep-bytes,
- what is left of deletions that did not come to their end,
- blobs that nothing names and that are older than --grace.

Only sessions at rest are deleted: no turn is open, nothing is queued or runs in the background, and
for --keep-bytes they were idle for --idle at least. Each leaves its tombstone, which "observer
verify" takes for what it is: expired, not tampered with. The bytes of --keep-bytes are those of
entries as they were written, without the files and long outputs that they only name, which several
may share; what disks hold is less where it compresses, and more until the server has compacted it.

It reads all journals once, and changes nothing that another gc, running at the same time, has to
know of: two of them only do some work twice. Run it now and then, from cron for example. It takes
the permissions of a keeper. See docs/operations.md.`,
		Example: `  turnlog gc
  turnlog gc --older-than 90d
  turnlog gc --older-than 90d --keep-bytes 50GiB --delete -o json`,
	}
	fs := cmd.Flags()
	fs.StringVar(&age, "older-than", "", "delete sessions that were last changed longer than this `time` ago: 90d, 12h")
	fs.StringVar(&size, "keep-bytes", "", "delete the sessions that were idle longest until all others hold at most so many `bytes`: 500MB, 50GiB")
	fs.StringVar(&idle, "idle", "7d", "with --keep-bytes, how long a session must have been idle: 7d, 12h")
	fs.BoolVar(&keep.really, "delete", false, "delete it; without this nothing is changed")
	grace := graceFlag(cmd)
	output := cli.OutputFlag(cmd, "text", "json")
	r := newRemote(a, cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := errors.Join(checkGrace(*grace), keep.parse(age, size, idle)); err != nil {
			return err
		}
		return r.keep(cmd.Context(), func(ctx context.Context, k *keeper) error {
			out, err := k.collect(ctx, keep, a.person(), *grace)
			if output.String() == "json" {
				return errors.Join(err, writeJSON(a.term.out, out))
			}
			return errors.Join(err, out.print(a.term.out, *grace))
		})
	}
	return cmd
}

// retention says what need not be kept.
type retention struct {
	age    time.Duration // 0: whatever its age
	bytes  uint64        // MaxUint64: whatever the size
	idle   time.Duration
	really bool
	why    [2]string // the reasons that tombstones give: age, size
}

func (r *retention) parse(age, size, idle string) (err error) {
	r.bytes = math.MaxUint64
	if age != "" {
		if r.age, err = parseAge(age); err != nil {
			return usageError("--older-than: %w", err)
		}
		r.why[0] = "not changed for " + age
	}
	if size != "" {
		if r.bytes, err = parseBytes(size); err != nil {
			return usageError("--keep-bytes: %w", err)
		}
		r.why[1] = "over " + size + " in all"
	}
	if r.idle, err = parseAge(idle); err != nil {
		return usageError("--idle: %w", err)
	}
	return nil
}

// parseAge reads a time that may be in days.
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
		return 0, fmt.Errorf("%q is no time: write 90d, 12h or 30m", text)
	}
	return d, nil
}

// parseBytes reads a size with a unit, or without one in bytes.
func parseBytes(text string) (uint64, error) {
	digits := strings.TrimRight(strings.ToLower(text), "kmgtib ")
	n, err := strconv.ParseFloat(digits, 64)
	factor, known := map[string]float64{
		"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
		"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
	}[strings.TrimSpace(strings.ToLower(text[len(digits):]))]
	if n *= factor; err != nil || !known || n < 0 || n >= math.MaxUint64 || math.IsNaN(n) {
		return 0, fmt.Errorf("%q is no size: write 500MB or 50GiB", text)
	}
	return uint64(n), nil
}

// pick chooses from what is held, which is in the order of its last change.
func (r *retention) pick(held []jetstream.Holding, now time.Time) []expiry {
	var total uint64
	for _, h := range held {
		total += h.Bytes
	}
	var out []expiry
	for _, h := range held {
		var unused string
		switch old := now.Sub(h.Changed); {
		case h.Deleted && h.Entries > 1:
			unused = "its deletion did not come to its end"
		case h.Deleted:
			continue
		case r.age > 0 && old > r.age:
			unused = r.why[0]
		case total > r.bytes && old > r.idle:
			unused = r.why[1]
		default:
			continue
		}
		total -= h.Bytes
		out = append(out, expiry{Session: h.Session, Changed: content.TimeOf(h.Changed), Entries: h.Entries, Bytes: h.Bytes, Why: unused})
	}
	return out
}

// expiry is a session that need not be kept.
type expiry struct {
	Session content.SessionID `json:"session"`
	Changed content.Time      `json:"changed_at"`
	Entries uint64            `json:"entries"`
	Bytes   uint64            `json:"bytes"`
	Why     string            `json:"why"`
	Kept    string            `json:"kept,omitempty"` // why it is kept all the same
}

// gcReport is what "turnlog gc" did, or would do.
type gcReport struct {
	DryRun   bool        `json:"dry_run"`
	Held     heldReport  `json:"held"`
	Sessions []expiry    `json:"sessions"`
	Blobs    *blobReport `json:"blobs"`
}

// heldReport is what there was before.
type heldReport struct {
	Sessions   int    `json:"sessions"`
	Bytes      uint64 `json:"bytes"`
	Tombstones int    `json:"tombstones"`
}

func (k *keeper) collect(ctx context.Context, keep retention, by string, grace time.Duration) (gcReport, error) {
	out := gcReport{DryRun: !keep.really, Sessions: []expiry{}, Blobs: &blobReport{}}
	held, err := k.cell.Keeper().Holdings(ctx)
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
		if keep.really {
			_, err = k.remove(ctx, e.Session, e.Entries, events.SessionDeleted{By: by, Reason: e.Why, Expired: true})
		} else {
			err = k.look(ctx, e.Session)
		}
		if err != nil && ctx.Err() != nil {
			return out, err
		}
		if err != nil {
			e.Kept = err.Error() // the others need not suffer
		}
		out.Sessions = append(out.Sessions, e)
	}
	if keep.really {
		if _, err := k.cell.Keeper().Unlist(ctx); err != nil {
			return out, err
		}
	}
	found, err := k.cell.Keeper().Collect(ctx, grace, !keep.really)
	out.Blobs = blobReportOf(found)
	return out, err
}

// look says why a session would not be deleted.
func (k *keeper) look(ctx context.Context, id content.SessionID) error {
	state, _, err := k.client.Read(ctx, id)
	if err != nil {
		return err
	}
	if why := atWork(state); why != "" && state.Deleted == nil {
		return fmt.Errorf("session %s is not deleted: %s", id, why)
	}
	return nil
}

func (r gcReport) print(w io.Writer, grace time.Duration) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	gone, size := 0, uint64(0)
	for i, e := range r.Sessions {
		if i == 0 {
			_, _ = fmt.Fprintln(t, "SESSION\tLAST CHANGE\tENTRIES\tSIZE\tWHY")
		}
		why := e.Why
		if e.Kept == "" {
			gone, size = gone+1, size+e.Bytes
		} else {
			why = "kept: " + e.Kept
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\n", e.Session, e.Changed, e.Entries, inBytes(e.Bytes), why)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	did := "deleted"
	if r.DryRun {
		did = "would be deleted"
	}
	_, err := fmt.Fprintf(w, "%d of %d sessions %s, %s of %s\n", gone, r.Held.Sessions, did, inBytes(size), inBytes(r.Held.Bytes))
	err = errors.Join(err, r.Blobs.print(w, did, grace))
	if r.DryRun {
		_, more := fmt.Fprintln(w, "Nothing was changed: --delete does it. Blobs that only these sessions name come on top.")
		err = errors.Join(err, more)
	}
	return err
}
