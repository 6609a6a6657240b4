package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/cluster"
	"github.com/turnlog/turnlog/internal/testing/journaltest"
	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// scribe writes entries of several sessions in turn.
type scribe struct {
	t    *testing.T
	j    *Journal
	ends map[content.SessionID]journal.Head
	all  []journal.Head // in the order in which they were written
}

func newScribe(t *testing.T, c *Cell) *scribe {
	t.Helper()
	return &scribe{t: t, j: c.Journal(), ends: map[content.SessionID]journal.Head{}}
}

// write writes n entries and returns their heads.
func (w *scribe) write(n int) []journal.Head {
	w.t.Helper()
	for range n {
		s := content.SessionID(fmt.Sprintf("s-%d", len(w.all)%3))
		h := journaltest.Fill(w.t, w.j, s, w.ends[s], 1)[1]
		w.ends[s], w.all = h, append(w.all, h)
	}
	return w.all[len(w.all)-n:]
}

// throughJSON returns a cursor that was stored and read.
func throughJSON(t *testing.T, c Cursor) Cursor {
	t.Helper()
	raw, err := json.Marshal(c)
	must(t, err)
	var out Cursor
	must(t, json.Unmarshal(raw, &out))
	if out != c {
		t.Fatalf("%+v is read from %s as %+v", c, raw, out)
	}
	return out
}

// observer handles entries and stores its cursor, so that it may be killed at any time.
type observer struct {
	t     *testing.T
	j     *Journal
	of    content.SessionID
	at    Cursor
	dealt []journal.Head
}

// run observes until it has handled n more entries.
func (o *observer) run(ctx context.Context, n int) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for rec, err := range o.j.Observe(ctx, o.of, throughJSON(o.t, o.at)) {
		must(o.t, err)
		o.dealt = append(o.dealt, rec.Head)
		o.at = CursorAt(rec)
		if n--; n == 0 {
			return
		}
	}
	o.t.Fatalf("%d entries did not come: %v", n, context.Cause(ctx))
}

// expect checks which entries the observer handled.
func (o *observer) expect(want []journal.Head) {
	o.t.Helper()
	if len(o.dealt) != len(want) {
		o.t.Fatalf("dealt with %d entries of %s, want %d", len(o.dealt), o.of, len(want))
	}
	for i, h := range o.dealt {
		if h != want[i] {
			o.t.Fatalf("entry %d of %s is %+v, want %+v", i, o.of, h, want[i])
		}
	}
}

func TestRestartedObserverMissesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		w := newScribe(t, c)
		all := &observer{t: t, j: c.Journal(), of: AllSessions}
		one := &observer{t: t, j: c.Journal(), of: "s-1"}
		w.write(9)
		for i := range 9 { // restarted after each entry, also after the first one
			all.run(t.Context(), 1)
			if i%3 == 1 {
				one.run(t.Context(), 1)
			}
			w.write(2) // without an observer
		}
		all.run(t.Context(), len(w.all)-len(all.dealt))
		all.expect(w.all)
		var ofOne []journal.Head
		for i, h := range w.all {
			if i%3 == 1 {
				ofOne = append(ofOne, h)
			}
		}
		one.run(t.Context(), len(ofOne)-len(one.dealt))
		one.expect(ofOne)
	})
}

func TestObserverStartsAtAnyCursor(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		ctx, cancel := context.WithCancel(t.Context())
		j := c.Journal()
		for _, s := range []content.SessionID{AllSessions, "s-1"} {
			if at, err := j.End(ctx, s); err != nil || at != (Cursor{}) {
				t.Errorf("End of nothing = %+v, %v", at, err)
			}
		}
		nothing := following(ctx, t, j.Observe(ctx, AllSessions, Cursor{}))
		synctest.Wait()
		w := newScribe(t, c)
		w.write(20)
		end, err := j.End(ctx, AllSessions)
		must(t, err)
		endOfOne, err := j.End(ctx, "s-1")
		must(t, err)
		if end.Position != w.all[19].Guard || endOfOne.Seq != w.ends["s-1"].Seq {
			t.Errorf("ends = %+v, %+v, want %+v, %+v", end, endOfOne, w.all[19], w.ends["s-1"])
		}
		fromNow := following(ctx, t, j.Observe(ctx, AllSessions, end))
		oneFromNow := following(ctx, t, j.Observe(ctx, "s-1", endOfOne))
		fromFive := following(ctx, t, j.Observe(ctx, AllSessions, Cursor{Position: w.all[4].Guard}))
		fromTwo := following(ctx, t, j.Observe(ctx, "s-1", Cursor{Seq: 2}))
		more := w.write(4)
		expect(t, nothing, w.all...)
		expect(t, fromNow, more...)
		expect(t, oneFromNow, more[2])
		expect(t, fromFive, w.all[5:]...)
		expect(t, fromTwo, w.all[7], w.all[10])
		cancel()
	})
}

func TestObserverOfAllSessionsRepairsAGapAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := muteCell(t)
		ctx, cancel := context.WithCancel(t.Context())
		w := newScribe(t, c)
		w.write(2)
		end, err := c.Journal().End(ctx, AllSessions)
		must(t, err)
		records := following(ctx, t, c.Journal().Observe(ctx, AllSessions, end))
		synctest.Wait()
		start := time.Now()
		more := w.write(7) // the live copies of all but the last one are lost
		liveCopy(t, c, "s-2", more[6].Guard, more[3].Guard)
		expect(t, records, more...)
		liveCopy(t, c, "s-2", more[6].Guard, more[3].Guard)
		expectNone(t, records)
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v, want no time: the copy after a gap shows it", took)
		}
		expect(t, records, w.write(3)...) // of these there is no copy at all
		if took := time.Since(start); took > api.Quiet {
			t.Errorf("took %v, want at most %v", took, api.Quiet)
		}
		cancel()
	})
}

func TestObserverOfAllSessionsContinuesAfterDamage(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		ctx, cancel := context.WithCancel(t.Context())
		j := c.Journal()
		records := following(ctx, t, j.Observe(ctx, AllSessions, Cursor{}))
		synctest.Wait()
		forge(t, c, "bad", []byte("hello"), nil)
		rec := <-records
		if !errors.Is(rec.Err, journal.ErrDamaged) || string(rec.Payload) != "hello" || rec.Entry.Session != "bad" || rec.Entry.At == 0 {
			t.Errorf("record = %q, %+v, %v, want the damaged one raw, with its session and time", rec.Payload, rec.Entry, rec.Err)
		}
		end, err := j.End(ctx, AllSessions)
		if err != nil || end != CursorAt(rec) {
			t.Errorf("End = %+v, %v, want %+v", end, err, CursorAt(rec))
		}
		head := journaltest.Fill(t, j, "good", journal.Head{}, 1)[1]
		expect(t, records, head)
		expect(t, following(ctx, t, j.Observe(ctx, AllSessions, throughJSON(t, end))), head) // and from a cursor after it
		cancel()
	})
}

func TestCursorThatDoesNotFitIsAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		w := newScribe(t, c)
		w.write(6)
		j := c.Journal()
		good, err := j.End(t.Context(), AllSessions)
		must(t, err)
		changed := func(change func(*Cursor)) Cursor {
			out := good
			change(&out)
			return out
		}
		for what, bad := range map[string]Cursor{
			"another entry": changed(func(c *Cursor) { c.Hash[0]++ }),
			"another place": changed(func(c *Cursor) { c.Position-- }),
			"after the end": changed(func(c *Cursor) { c.Position++ }),
			"nowhere":       changed(func(c *Cursor) { c.Position = 0 }),
			"other session": changed(func(c *Cursor) { c.Session = "s-0" }),
		} {
			for _, s := range []content.SessionID{AllSessions, good.Session} {
				if _, err := drain(j.Observe(t.Context(), s, bad)); !errors.Is(err, ErrCursor) {
					t.Errorf("%s: Observe of %s = %v, want ErrCursor", what, s, err)
				}
			}
		}
		if _, err := drain(j.Observe(t.Context(), "s-0", good)); !errors.Is(err, ErrCursor) {
			t.Errorf("Observe of another session = %v, want ErrCursor", err)
		}
		for _, s := range []content.SessionID{"", "a.b"} {
			if _, err := j.End(t.Context(), s); !errors.Is(err, content.ErrBadID) {
				t.Errorf("End of %q = %v, want ErrBadID", s, err)
			}
		}
	})
}

// TestObserverWaitsForTheServers checks that an observer that starts without a server continues from
// its cursor when there is one, without repetitions.
func TestObserverWaitsForTheServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServer(t, embedded.WithStore(dir), embedded.WithListener("127.0.0.1:0"))
	u, err := url.Parse(s.ClientURL())
	must(t, err)
	c := openCell(t, connectTCP(t, s, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectBufSize(-1)))
	create(t, c, jetstream.FileStorage, 1)
	w := newScribe(t, c)
	w.write(5)
	o := &observer{t: t, j: c.Journal(), of: AllSessions}
	o.run(t.Context(), 3)

	cutOff := c.nc.StatusChanged(nats.RECONNECTING)
	s.Close()
	<-cutOff
	ctx, cancel := context.WithCancel(t.Context())
	records := following(ctx, t, c.Journal().Observe(ctx, AllSessions, o.at))
	startServer(t, embedded.WithStore(dir), embedded.WithListener(u.Host))
	expect(t, records, w.all[3:]...)
	expect(t, records, w.write(1)...)
	cancel()
}

// TestObserverMissesNothingWhileLeadersChange moves the leader of the journal while entries are
// written and an observer restarts.
func TestObserverMissesNothingWhileLeadersChange(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	servers, err := cluster.Start(ctx, "")
	must(t, err)
	t.Cleanup(servers.Close)
	var cells []*Cell
	for range 2 {
		nc, err := servers.Connect()
		must(t, err)
		cells = append(cells, openCell(t, nc))
	}
	create(t, cells[0], jetstream.MemoryStorage, 3)
	all := &observer{t: t, j: cells[1].Journal(), of: AllSessions}
	w := newScribe(t, cells[0])
	for range 4 {
		stepDown(ctx, t, cells[1], "STREAM.LEADER.STEPDOWN."+cells[0].names.JournalStream())
		for range 10 {
			w.persist(ctx)
		}
		all.run(ctx, 7) // and is stopped in the middle
	}
	all.run(ctx, len(w.all)-len(all.dealt))
	all.expect(w.all)
}

// persist writes one entry and retries until it succeeds.
func (w *scribe) persist(ctx context.Context) {
	w.t.Helper()
	const s = "s-0"
	for {
		head, err := w.j.Append(ctx, w.ends[s], journaltest.Entry(s, len(w.all)))
		if err != nil {
			rec, lastErr := w.j.Last(ctx, s) // it may have been written all the same
			switch {
			case ctx.Err() != nil:
				w.t.Fatal(err)
			case lastErr != nil || rec.Seq == w.ends[s].Seq:
				continue
			}
			head = rec.Head
		}
		w.ends[s], w.all = head, append(w.all, head)
		return
	}
}
