package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

// stuck is how long nothing may happen in a calm world.
const stuck = 2 * time.Hour

// rest steps until there is nothing to do in a calm world. A canceled call may still report its
// outcome, so it checks twice.
func (h *host) rest(ctx context.Context) {
	h.background.Wait()
	quiet := 0
	for range 500 {
		switch {
		case h.w.t.Failed():
			return
		case h.driver == nil:
			h.start(ctx)
			continue
		case h.asked != nil:
			h.ask("approve", h.asked.Approve(ctx))
		}
		if _, idle := h.stepOn(ctx).(*session.AwaitingInput); !idle {
			quiet = 0
			continue
		}
		s := h.compare(ctx, h.driver)
		if !slices.ContainsFunc(s.Background, loop.Call.Running) && loop.Waiting(s) == commands.WaitInput {
			quiet++
		}
		if quiet == 2 {
			return
		}
		_ = nap(ctx, time.Minute)
	}
	h.w.wrong("%s: the session does not come to rest", h.id)
}

// stepOn calls Next without a deadline.
func (h *host) stepOn(ctx context.Context) session.Step {
	ctx, cancel := context.WithTimeout(ctx, stuck)
	defer cancel()
	step, err := h.driver.Next(ctx)
	if ctx.Err() != nil {
		h.w.wrong("%s: stuck: Next = %v", h.id, err)
	}
	h.took(step, err)
	if reason(err) == "approval_pending" {
		h.settleOldest(ctx)
		_ = nap(ctx, time.Second) // the timer of one that has expired fires only as time passes
	}
	return step
}

// compare compares a fold of the journal with the driver's view. Background calls end at any
// time, so it checks again if the journal grew meanwhile.
func (h *host) compare(ctx context.Context, d *session.Session) *loop.State {
	for {
		before := d.Snapshot().Seq
		s, diff := h.difference(ctx, d)
		if d.Snapshot().Seq != before {
			continue
		}
		if diff != "" {
			h.w.wrong("%s: the driver shows something else than a fold from scratch:\n%s", h.id, diff)
		}
		return s
	}
}

func (h *host) difference(ctx context.Context, d *session.Session) (*loop.State, string) {
	s, err := audit.Replay(h.id, h.w.store.Read(ctx, h.id, 0))
	if err != nil {
		h.w.wrong("%s: Replay = %v", h.id, err)
		return s, ""
	}
	last, err := h.w.store.Last(ctx, h.id)
	if err != nil {
		h.w.wrong("%s: Last = %v", h.id, err)
		return s, ""
	}
	return s, cmp.Diff(pretty(session.SnapshotOf(s, last.Hash)), pretty(d.Snapshot()))
}

func pretty(v any) string {
	raw, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// close closes all drivers of the session.
func (h *host) close(ctx context.Context) {
	for _, d := range append(h.retired, h.driver) {
		if d == nil {
			continue
		}
		if err := d.Close(ctx); err != nil {
			h.w.wrong("%s: Close = %v", h.id, err)
		}
	}
	for _, o := range h.watchers {
		o.over()
	}
}

// goroutines counts the goroutines of this bubble.
func goroutines() (int, string) {
	own := make([]byte, 256)
	own = own[:runtime.Stack(own, false)]
	_, mark, _ := bytes.Cut(own, []byte("synctest bubble"))
	mark, _, _ = bytes.Cut(mark, []byte("]"))
	all := make([]byte, 1<<20)
	all = all[:runtime.Stack(all, true)]
	var in []string
	for g := range strings.SplitSeq(string(all), "\n\n") {
		head, _, _ := strings.Cut(g, "\n")
		if strings.Contains(head, "synctest bubble"+string(mark)+"]") {
			in = append(in, g)
		}
	}
	return len(in), strings.Join(in, "\n\n")
}

// noneLeft waits for goroutines that end by themselves, and checks that none is left.
func (w *world) noneLeft(ctx context.Context, before int) {
	_ = nap(ctx, time.Hour)
	synctest.Wait()
	if n, stacks := goroutines(); n != before {
		w.wrong("%d goroutines are left, %d were there before:\n%s", n, before, stacks)
	}
}

// texts returns the texts of items that a host can know.
func texts(items []content.Item) []string {
	var out []string
	for _, it := range items {
		out = append(out, it.Text())
	}
	return out
}
