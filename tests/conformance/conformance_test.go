package conformance

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/agent/replay"
	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/ramdisk"
	"github.com/turnlog/turnlog/turnlogtest"
)

func TestMain(m *testing.M) {
	ramdisk.Use()
	turnlogtest.Main(m)
}

// shape is a way to run a session.
type shape struct {
	name string
	open func(t *testing.T, ctx context.Context, sc *scenario, w *workshop) hosted

	deployed bool // with a server
}

func TestConformance(t *testing.T) {
	t.Parallel()
	tried := &prefixes{seen: make(map[string]bool)}
	for _, sc := range load(t) {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			for _, sh := range inProcessShapes() {
				if sc.NotIn[sh.name] == "" {
					t.Run(sh.name, func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { run(t, sc, sh, tried, false) })
					})
				}
			}
			t.Run("deployment", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { deployments(t, sc, tried) })
			})
		})
	}
}

// deployments plays a scenario in each shape of deployment. It plays it without a crash, and then once for each append
// of the journal that it had, and kills the node after that append. The sessions share a server and its streams:
// creating them for each session took a fifth of the time.
func deployments(t *testing.T, sc *scenario, tried *prefixes) {
	t.Helper()
	on, doing := newSite(t.Context(), t), ""
	defer func() {
		if t.Failed() {
			t.Log("that was " + doing)
		}
	}()
	for _, sh := range on.shapes() {
		if sc.NotIn[sh.name] != "" {
			continue
		}
		doing = sh.name
		whole := run(t, sc, sh, tried, false)
		on.clear()
		for n := 1; n <= len(whole) && !t.Failed() && sc.NotIn["crash"] == "" && sc.NotIn[sh.name+" crash"] == ""; n++ {
			if tried.died(sc, sh.name, whole[:n]) {
				continue
			}
			doing = fmt.Sprintf("%s with a crash after append %d of %d", sh.name, n, len(whole))
			died := false
			run(t, sc, crashing(on, sh.name, n, &died), tried, true)
			on.clear()
			if !died {
				t.Errorf("there were not %d appends", n)
			}
		}
		if t.Failed() {
			return
		}
	}
}

// run plays a scenario and checks the result. After a crash, only a tool that declares itself
// repeatable may have started more often than the scenario says.
func run(t *testing.T, sc *scenario, sh shape, tried *prefixes, crash bool) []journal.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	w := newWorkshop(t, sc)
	p := &player{t: t, ctx: ctx, shop: w, hosted: sh.open(t, ctx, sc, w), crash: crash, loses: sh.name == "local crash"}
	defer p.end()
	for i, st := range sc.Steps {
		p.at = fmt.Sprintf("step %d", i+1)
		p.play(st)
		if t.Failed() || p.strayed {
			break
		}
	}
	synctest.Wait() // so that effects of the last step are written, too
	records := p.records(p.ID())
	if diff := cmp.Diff(sc.Transcript, turnlogtest.Lines(p.Snapshot().Transcript)); diff != "" {
		p.wrong("transcript, -want +got:\n%s", diff)
	}
	c := audit.NewChecker()
	for _, rec := range records {
		c.Add(rec)
	}
	if bad := c.Verdict().Faults; len(bad) > 0 {
		t.Errorf("audit: %v", bad)
	}
	if !crash || len(records)%4 == 0 { // a sample of these is enough
		checkReplay(t, records)
	}
	checkEvents(t, sc, records, crash)
	checkRan(t, sc, w.ran(), crash)
	if asked := w.heard(); !crash && sc.Asked != nil && !cmp.Equal(sc.Asked, asked) {
		t.Errorf("hooks that were asked = %v, want %v", asked, sc.Asked)
	}
	if t.Failed() {
		for _, line := range eventLines(records) {
			t.Log(line)
		}
	} else if !crash {
		p.forked(sh, records, tried)
	}
	return records
}

// checkReplay runs the session again, which must lead to the same events.
func checkReplay(t *testing.T, records []journal.Record) {
	t.Helper()
	out, err := replay.Run(t.Context(), records, replay.Config{})
	if err != nil {
		t.Errorf("replay: %v", err)
		return
	}
	if !out.Diff.Same || len(out.Otherwise) > 0 {
		t.Errorf("the replay differs: %+v, entries %v", out.Diff.Changes, out.Otherwise)
	}
}

// checkEvents compares the journal with the scenario. After a crash, calls may be lost and events
// moved, so only events that must never occur count.
func checkEvents(t *testing.T, sc *scenario, records []journal.Record, crash bool) {
	t.Helper()
	want := sc.Events
	for _, line := range eventLines(records) {
		if slices.ContainsFunc(sc.Never, func(begins string) bool { return says(line, begins) }) {
			t.Errorf("the journal holds %s, which must not occur", line)
		}
		if len(want) > 0 && says(line, want[0]) {
			want = want[1:]
		}
	}
	if len(want) > 0 && !crash {
		t.Errorf("the journal lacks %q at the end of %q", want, sc.Events)
	}
}

func checkRan(t *testing.T, sc *scenario, ran map[string]int, crash bool) {
	t.Helper()
	if !crash && sc.Ran != nil {
		if diff := cmp.Diff(sc.Ran, ran); diff != "" {
			t.Errorf("tools that began, -want +got:\n%s", diff)
		}
	}
	for _, s := range sc.Tools {
		if limit, known := sc.Ran[s.Name]; crash && known && !s.Effects.Retryable() && ran[s.Name] > limit {
			t.Errorf("%s began %d times, and it may not be run again", s.Name, ran[s.Name])
		}
	}
}
