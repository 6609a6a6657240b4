package report_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/turnlogtest"
)

func TestMain(m *testing.M) { turnlogtest.Main(m) }

// The latest sessions are found from the end of the journal, and are those that a list of all begins with.
func TestTheLatestSessionsAreListedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := turnlogtest.Empty(t.Context(), t) // a node would take the sessions, which are not parked
		random := rand.New(rand.NewPCG(1, 2))  //nolint:gosec // repeatable
		heads := map[content.SessionID]journal.Head{}
		add := func(i int, evs ...events.Event) {
			s := content.SessionID(fmt.Sprint("s-", i))
			if heads[s].Seq == 0 {
				model := "scripted:even"
				if i%2 == 1 {
					model = "scripted:odd"
				}
				began := events.RunStarted{Config: events.Config{Model: model}}
				switch i % 3 {
				case 0:
					began.Metadata = began.Metadata.With(report.MetaOwner, "ada")
				case 1:
					began.Parent = content.SessionID(fmt.Sprint("s-", i-1))
				}
				evs = append([]events.Event{events.DriverClaimed{Epoch: 1, Node: "n"}, began}, evs...)
			}
			d.Advance(time.Millisecond) // no two entries have the same time
			head, err := d.Cell.Journal().Append(d.Ctx, heads[s], events.Entry{Session: s, Epoch: 1, At: content.TimeOf(time.Now()), Cause: fmt.Sprint("c-", heads[s].Seq), Events: evs})
			if err != nil {
				t.Fatal(err)
			}
			heads[s] = head
		}
		fail := func(err error) { t.Error(err) }
		name := func(a, b report.Summary) bool {
			return a.Session == b.Session && a.Changed == b.Changed && a.Owner == b.Owner
		}
		var kept report.Index // its lists are the same as those of an empty index
		check := func() {
			t.Helper()
			q := report.Query{Sort: "age", Skip: 2}
			got, err := kept.List(d.Ctx, d.Client, q, fail)
			if err != nil {
				t.Fatal(err)
			}
			all, err := new(report.Index).List(d.Ctx, d.Client, q, fail)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got.Sessions, all.Sessions, name) || got.Total != all.Total {
				t.Errorf("%d sessions %v, want %d, %v", got.Total, got.Sessions, all.Total, all.Sessions)
			}
		}
		check()
		for i := range 60 {
			add(i)
		}
		check()
		check()
		for range 200 {
			add(random.IntN(60), events.Warning{Code: "x"})
		}
		check()
		add(7, events.SessionDeleted{By: "kim"})
		check()
		for range 2_500 { // more than is read at a time
			add(3, events.Warning{Code: "x"})
		}
		check()
		for _, q := range []report.Query{{Limit: 1}, {Limit: 16}, {Limit: 17}, {Limit: 58}, {Limit: 100}, {Limit: 9, Model: "*odd"}, {Limit: 9, Search: "S-1"}, {Limit: 5, Model: "none"}, {Limit: 9, Owner: "ada"}} {
			q.Sort = "age"
			got, err := q.List(d.Ctx, d.Client, fail)
			if err != nil {
				t.Fatal(err)
			}
			all, err := new(report.Index).List(d.Ctx, d.Client, q, fail)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got, all.Sessions, name) {
				t.Errorf("%+v: %v, want %v", q, got, all.Sessions)
			}
		}
	})
}
