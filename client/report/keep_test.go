package report_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/s2"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/events/seal"
	"github.com/turnlog/turnlog/internal/testing/frozen"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/turnlogtest"
)

// fill gives a deployment sessions with a call of a tool each, for a model, and returns a function that adds an entry to one.
func fill(t *testing.T, d *turnlogtest.Deployment, n int, model string) (add func(i int, e events.Entry)) {
	t.Helper()
	heads := map[content.SessionID]journal.Head{}
	add = func(i int, e events.Entry) {
		e.Session = content.SessionID(fmt.Sprint("s-", i))
		head, err := d.Cell.Journal().Append(d.Ctx, heads[e.Session], e)
		if err != nil {
			t.Fatal(err)
		}
		heads[e.Session] = head
	}
	for i := range n {
		for _, r := range frozen.Journal(t, "approvals") {
			for k, ev := range r.Entry.Events {
				if started, ok := ev.(events.RunStarted); ok {
					started.Config.Model = model
					r.Entry.Events[k] = started
				}
			}
			add(i, r.Entry)
		}
	}
	return add
}

// keeping runs nodes that keep the list of a deployment. It returns functions that let time pass, and that stop them.
func keeping(t *testing.T, d *turnlogtest.Deployment, c *client.Client, nodes int) (rounds, end func()) {
	t.Helper()
	ctx, stop := context.WithCancel(d.Ctx)
	var group sync.WaitGroup
	for range nodes {
		group.Go(func() { report.Keep(ctx, c, func(err error) { t.Error(err) }) })
	}
	rounds = func() {
		d.Advance(4 * time.Minute)
		synctest.Wait()
	}
	return rounds, func() { stop(); group.Wait() }
}

// kept returns the rows that a cell keeps, page by page.
func kept(t *testing.T, d *turnlogtest.Deployment) (rows []string) {
	t.Helper()
	for p, err := range d.Client.Pages().After(d.Ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		var page struct {
			Rows []byte `msgpack:"r"`
		}
		if err := wire.Unmarshal(p.Data, wire.Snapshot, &page); err != nil {
			t.Fatal(err)
		}
		raw, err := s2.Decode(nil, page.Rows)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, string(raw))
	}
	return rows
}

func warned(i int) events.Entry {
	return events.Entry{Epoch: 1, Cause: fmt.Sprint("x-", i), Events: []events.Event{events.Warning{Code: "x"}}}
}

func deletion() events.Entry {
	return events.Entry{Epoch: 1, Cause: "d", Events: []events.Event{events.SessionDeleted{By: "kim"}}}
}

// A list of what nodes keep is that of an index that has followed all sessions itself, and costs few messages.
func TestAListOfWhatNodesKeepIsThatOfAllSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := turnlogtest.Empty(t.Context(), t)
		const n = 300
		add := fill(t, d, n, "one")
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable
		fail := func(err error) { t.Error(err) }
		truth, same := new(report.Index), cmpopts.IgnoreUnexported(report.Summary{})
		check := func(what string, most uint64) {
			t.Helper()
			q := report.Query{Sort: "session", Tool: "ec*", Model: "one"}
			want, err := truth.List(d.Ctx, d.Client, q, fail)
			if err != nil {
				t.Fatal(err)
			}
			spent, err := truth.Usage(d.Ctx, d.Client, report.Period{}, nil, fail)
			if err != nil {
				t.Fatal(err)
			}
			before := d.Conn.Stats().OutMsgs
			x := new(report.Index)
			got, err := x.List(d.Ctx, d.Client, q, fail)
			if err != nil {
				t.Fatal(err)
			}
			if sent := d.Conn.Stats().OutMsgs - before; sent > most {
				t.Errorf("%s: %d messages, at most %d", what, sent, most)
			}
			if diff := cmp.Diff(want, got, same); diff != "" || got.Total == 0 {
				t.Errorf("%s: %d sessions, -want +got:\n%s", what, got.Total, diff)
			}
			used, err := x.Usage(d.Ctx, d.Client, report.Period{}, nil, fail)
			if diff := cmp.Diff(spent, used); err != nil || diff != "" {
				t.Errorf("%s: usage, %v, -want +got:\n%s", what, err, diff)
			}
		}
		check("nothing is kept", 20*n)
		rounds, end := keeping(t, d, d.Client, 3)
		rounds()
		check("all is kept", 30)
		for i := range 200 {
			add(random.IntN(n/2), warned(i))
		}
		check("some has changed since", 10*n)
		rounds()
		check("all is kept again", 30)
		add(4, deletion())
		check("one is gone", 40)
		rounds()
		check("its row is gone", 30)
		end()

		rounds, end = keeping(t, d, d.Client, 1) // another node continues
		for i := range 50 {
			add(random.IntN(n/2)+n/2, warned(i))
			if i%10 == 0 {
				rounds()
			}
		}
		rounds()
		check("of another node", 40)
		last, err := d.Client.Pages().Add(d.Ctx, nil)
		if err == nil {
			err = d.Client.Pages().DropBefore(d.Ctx, last+1)
		}
		if err != nil {
			t.Fatal(err)
		}
		check("somebody has removed the pages", 20*n)
		d.Advance(time.Hour)
		rounds()
		check("an hour later", 40)
		end()
	})
}

// Damaged pages are ignored.
func TestAListOfDamagedPagesIsThatOfAllSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := turnlogtest.Empty(t.Context(), t)
		fill(t, d, 5, "one")
		var end client.Changes
		if _, _, err := end.Next(d.Ctx, d.Client); err != nil {
			t.Fatal(err)
		}
		bad := struct {
			Format int            `msgpack:"f"`
			Set    string         `msgpack:"s"`
			Parts  int            `msgpack:"n"`
			At     client.Changes `msgpack:"a"`
			Rows   []byte         `msgpack:"r"`
		}{1, "x", 1, end, []byte("no rows")}
		raw, err := wire.Marshal(&bad, wire.Snapshot)
		if err != nil {
			t.Fatal(err)
		}
		for _, data := range [][]byte{nil, []byte("no page"), raw} {
			if _, err := d.Client.Pages().Add(d.Ctx, data); err != nil {
				t.Fatal(err)
			}
		}
		complaints := 0
		x := new(report.Index)
		for range 2 {
			got, err := x.List(d.Ctx, d.Client, report.Query{Sort: "session"}, func(error) { complaints++ })
			if err != nil || got.Total != 5 || complaints != 1 {
				t.Errorf("%d sessions, %d complaints, %v", got.Total, complaints, err)
			}
		}
		kept := make(chan error, 10)
		ctx, stop := context.WithCancel(d.Ctx)
		var keeping sync.WaitGroup
		keeping.Go(func() { report.Keep(ctx, d.Client, func(err error) { kept <- err }) })
		d.Advance(5 * time.Minute)
		stop()
		keeping.Wait()
		if len(kept) != 1 {
			t.Errorf("the node complained %d times, want once", len(kept))
		}
		if got, err := new(report.Index).List(d.Ctx, d.Client, report.Query{Sort: "session"}, func(err error) { t.Error(err) }); err != nil || got.Total != 5 {
			t.Errorf("%d sessions once the pages were made again, %v", got.Total, err)
		}
	})
}

// laterPage is a page of a later release.
type laterPage struct {
	Format int    `msgpack:"f"`
	Rows   []byte `msgpack:"r"`
}

// While a later release keeps the list, nodes report once that they do not. An hour after it has stopped, they
// continue.
func TestNodesLeaveTheListToALaterRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := turnlogtest.Empty(t.Context(), t)
		add := fill(t, d, 5, "one")
		rounds, end := keeping(t, d, d.Client, 1)
		rounds()
		end()
		if len(kept(t, d)) != 1 {
			t.Fatal("the list is not kept")
		}
		listed := func(when string, most uint64) {
			t.Helper()
			before := d.Conn.Stats().OutMsgs
			got, err := new(report.Index).List(d.Ctx, d.Client, report.Query{Sort: "session"}, func(err error) { t.Error(err) })
			if sent := d.Conn.Stats().OutMsgs - before; err != nil || got.Total != 5 || sent > most {
				t.Errorf("%s: %d sessions with %d messages, at most %d, %v", when, got.Total, sent, most, err)
			}
		}
		later := func() {
			t.Helper()
			data, err := wire.Marshal(&laterPage{1000, s2.Encode(nil, []byte("later"))}, wire.Snapshot)
			if err != nil {
				t.Fatal(err)
			}
			seq, err := d.Client.Pages().Add(d.Ctx, data)
			if err == nil {
				err = d.Client.Pages().DropBefore(d.Ctx, seq) // as it does with a list that it has made again
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		later()
		var complaints []error
		ctx, stop := context.WithCancel(d.Ctx)
		var group sync.WaitGroup
		group.Go(func() { report.Keep(ctx, d.Client, func(err error) { complaints = append(complaints, err) }) })
		for i := range 9 {
			d.Advance(10 * time.Minute)
			synctest.Wait()
			add(i%5, warned(i))
			if i == 3 {
				later()
			}
			if rows := kept(t, d); len(rows) != 1 || rows[0] != "later" {
				t.Fatalf("after %d minutes the pages are %q", 10*i, rows)
			}
			listed("while a later release keeps the list", 30)
		}
		if len(complaints) != 1 || !strings.Contains(complaints[0].Error(), "a later release maintains it") {
			t.Errorf("complaints: %v", complaints)
		}
		d.Advance(20 * time.Minute)
		synctest.Wait()
		if len(kept(t, d)) < 2 {
			t.Error("an hour after the later release's last page, the list is not kept")
		}
		listed("an hour later", 10)
		stop()
		group.Wait()
		if len(complaints) != 1 {
			t.Errorf("complaints: %v", complaints)
		}
	})
}

// A cell keeps no content of sealed or deleted sessions.
func TestTheCellKeepsNoContentThatMustGo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	if _, err := seal.Create(file); err != nil {
		t.Fatal(err)
	}
	ring, err := seal.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, keys := range []seal.Ring{ring, {}} { // of the node; lists have the key
		synctest.Test(t, func(t *testing.T) {
			keepsNoContent(t, turnlogtest.Empty(t.Context(), t, turnlogtest.SealKeys(ring)), keys)
		})
	}
}

func keepsNoContent(t *testing.T, d *turnlogtest.Deployment, keys seal.Ring) {
	t.Helper()
	const sealed, open = "zanzibar", "lisbon"
	add := fill(t, d, 5, "one")
	before, err := new(report.Index).Usage(d.Ctx, d.Client, report.Period{}, nil, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	used := before.Usage[0].Usage.InputTokens
	if err := d.Cell.Seal(d.Ctx, "s-10", ""); err != nil {
		t.Fatal(err)
	}
	for i, title := range map[int]string{10: sealed, 11: open} {
		add(i, events.Entry{Epoch: 1, Events: []events.Event{
			events.DriverClaimed{Epoch: 1, Node: "n"}, events.RunStarted{Config: events.Config{Model: "one"}, Transcript: []content.Item{content.UserText(title)}},
		}})
		add(i, events.Entry{Epoch: 1, Cause: "u", Events: []events.Event{events.UsageUpdated{Source: "model", Usage: content.Usage{InputTokens: 7}}}})
	}
	c, err := client.Open(d.Conn, d.Cell.Namespace(), client.WithSealKeys(keys))
	if err != nil {
		t.Fatal(err)
	}
	rounds, end := keeping(t, d, c, 1)
	defer end()
	has := func(text string) bool {
		return bytes.Contains([]byte(fmt.Sprint(kept(t, d))), []byte(text))
	}
	finds := func(search string, want int) {
		t.Helper()
		got, err := report.Query{Sort: "session", Search: search}.List(d.Ctx, d.Client, func(err error) { t.Error(err) })
		if err != nil || len(got) != want {
			t.Errorf("%d sessions with %q, %v, want %d", len(got), search, err, want)
		}
	}
	rounds()
	if !has("s-10") || has(sealed) || !has(open) {
		t.Errorf("a sealed session is kept: %v, its title: %v, that of another one: %v", has("s-10"), has(sealed), has(open))
	}
	finds(sealed, 1)
	finds(open, 1)
	add(11, deletion())
	rounds()
	if has(open) {
		t.Error("the title of a deleted session is kept")
	}
	finds(open, 0)
	finds("", 6)
	got, err := new(report.Index).Usage(d.Ctx, d.Client, report.Period{}, nil, func(err error) { t.Error(err) })
	if err != nil || len(got.Usage) != 1 || got.Usage[0].Usage.InputTokens != used+7 {
		t.Errorf("%+v, %v, want what was used before and 7 tokens of the sealed session", got, err)
	}
}
