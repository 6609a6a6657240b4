package report_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/frozen"
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

// keep has an index kept in a file while a list is made, and returns the list and how many messages that took.
func keep(t *testing.T, d *turnlogtest.Deployment, file string, complain func(error), q report.Query) (p report.Page, sent uint64) {
	t.Helper()
	before := d.Conn.Stats().OutMsgs
	var x report.Index
	end := x.Keep(d.Ctx, d.Client, file, complain)
	synctest.Wait()
	p, err := x.List(d.Ctx, d.Client, q, complain)
	if err != nil {
		t.Fatal(err)
	}
	end()
	return p, d.Conn.Stats().OutMsgs - before
}

func TestAKeptIndexReadsOnlyWhatHasChanged(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "index")
	fail := func(err error) { t.Error(err) }
	same := cmpopts.IgnoreUnexported(report.Summary{})
	synctest.Test(t, func(t *testing.T) {
		d := turnlogtest.Empty(t.Context(), t)
		const n = 200
		add := fill(t, d, n, "one")
		q := report.Query{Sort: "session", Tool: "ec*", Model: "one"}
		check := func(complain func(error), most uint64) {
			t.Helper()
			got, sent := keep(t, d, file, complain, q)
			want, err := new(report.Index).List(d.Ctx, d.Client, q, fail)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, same); diff != "" || got.Total == 0 {
				t.Errorf("%d sessions, -want +got:\n%s", got.Total, diff)
			}
			if sent > most {
				t.Errorf("%d messages, at most %d", sent, most)
			}
		}
		check(fail, 10*n)
		check(fail, 30)
		add(1, events.Entry{Epoch: 1, Cause: "x", Events: []events.Event{events.Warning{Code: "x"}}}) // while no gateway runs
		add(4, events.Entry{Epoch: 1, Cause: "x", Events: []events.Event{events.SessionDeleted{By: "kim"}}})
		check(fail, 60)
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file is %v, %v", info, err)
		}
		if err := os.Truncate(file, 100); err != nil {
			t.Fatal(err)
		}
		damaged := 0
		check(func(err error) {
			if damaged++; !strings.Contains(err.Error(), "cannot be read") {
				t.Error(err)
			}
		}, 10*n)
		check(fail, 30)
		if damaged != 1 {
			t.Errorf("%d complaints about a damaged file", damaged)
		}
	})
	synctest.Test(t, func(t *testing.T) { // another deployment, with sessions of the same names and lengths
		d := turnlogtest.Empty(t.Context(), t)
		fill(t, d, 200, "two")
		if got, _ := keep(t, d, file, fail, report.Query{Sort: "age", Model: "two"}); got.Total != 200 {
			t.Errorf("%d sessions, want 200", got.Total)
		}
	})
}
