package report_test

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/turnlogtest"
)

// spending writes sessions that use something, and asks what they used.
type spending struct {
	*turnlogtest.Deployment

	t     *testing.T
	heads map[content.SessionID]journal.Head
	at    time.Time
}

func (s *spending) add(id content.SessionID, evs ...events.Event) {
	s.t.Helper()
	head := s.heads[id]
	e := events.Entry{Session: id, Epoch: 1, At: content.TimeOf(s.at), Cause: fmt.Sprint("c-", head.Seq), Events: evs}
	head, err := s.Cell.Journal().Append(s.Ctx, head, e)
	if err != nil {
		s.t.Fatal(err)
	}
	s.heads[id] = head
}

func (s *spending) open(id content.SessionID, run events.RunStarted) {
	s.t.Helper()
	s.add(id, events.DriverClaimed{Epoch: 1, Node: "n"}, run)
}

func spend(tokens int64, source string) events.UsageUpdated {
	u := content.Usage{InputTokens: tokens}
	if tokens > 1 {
		u.CostMicros, u.Currency = tokens*10, "EUR"
	}
	return events.UsageUpdated{Usage: u, Source: source}
}

func (s *spending) usage(x *report.Index, in report.Period, may func(report.Summary) bool) report.Spending {
	s.t.Helper()
	got, err := x.Usage(s.Ctx, s.Client, in, may, func(err error) { s.t.Error(err) })
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

func used(sessions, turns int, tokens, cost int64) report.Used {
	u := report.Used{Sessions: sessions, Turns: turns}
	u.Usage.InputTokens, u.Usage.CostMicros = tokens, cost
	if cost > 0 {
		u.Usage.Currency = "EUR"
	}
	return u
}

func TestUsageIsAddedUpByDay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &spending{turnlogtest.Empty(t.Context(), t), t, map[content.SessionID]journal.Head{}, time.Date(2026, 11, 27, 23, 59, 0, 0, time.UTC)}
		ada := content.Metadata{}.With(report.MetaOwner, "ada")
		s.open("a", events.RunStarted{Config: events.Config{Model: "one"}, Metadata: ada})
		s.add("a", events.TurnStarted{Turn: "a.1"}, spend(100, "model"), spend(50, "child"))
		s.open("a-child", events.RunStarted{Config: events.Config{Model: "two"}, Parent: "a"})
		s.add("a-child", events.TurnStarted{Turn: "c.1"}, spend(50, "model"))
		s.open("gone", events.RunStarted{Config: events.Config{Model: "one"}})
		s.add("gone", events.TurnStarted{Turn: "g.1"}, spend(7000, "model"))
		kept := new(report.Index)
		for i := range 300 {
			s.add("gone", events.Warning{Code: strconv.Itoa(i)})
		}
		rounds, end := keeping(t, s.Deployment, s.Client, 1)
		s.usage(kept, report.Period{}, nil)
		rounds()

		s.at = s.at.Add(2 * time.Minute) // the next day
		s.add("a", spend(20, "model"))
		s.add("a", events.ModelSwitched{Model: "two"}, events.TurnStarted{Turn: "a.2"}, spend(1, "model"))
		s.open("fork", events.RunStarted{Config: events.Config{Model: "one"}, From: "a/2", Metadata: content.Metadata{}.With(report.MetaOwner, "bob")})
		s.add("fork", events.TurnStarted{Turn: "f.1"}, spend(30, "model"))
		s.open("idle", events.RunStarted{Config: events.Config{Model: "one"}})
		s.add("gone", events.SessionDeleted{By: "kim"})

		all := report.Spending{
			Usage: []report.Share{
				{Model: "one", Owner: "ada", Used: used(1, 1, 120, 1200)},
				{Model: "one", Owner: "bob", Used: used(1, 1, 30, 300)},
				{Model: "two", Owner: "ada", Used: used(2, 2, 51, 500)},
			},
			Days: []report.DayUse{{Day: "2026-11-28", Used: used(2, 2, 51, 500)}, {Day: "2026-11-27", Used: used(2, 2, 150, 1500)}},
		}
		check := func(what string, x *report.Index) {
			t.Helper()
			if diff := cmp.Diff(all, s.usage(x, report.Period{}, nil)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		check("an index that knows some", kept)
		check("one that begins with what is kept of the first day", new(report.Index))
		rounds()
		check("one that begins with what is kept", new(report.Index))
		end()

		first := report.Period{To: "2026-11-27"}
		if diff := cmp.Diff(report.Spending{
			Usage: []report.Share{{Model: "one", Owner: "ada", Used: used(1, 1, 100, 1000)}, {Model: "two", Owner: "ada", Used: used(1, 1, 50, 500)}}, Days: all.Days[1:],
		}, s.usage(kept, first, nil)); diff != "" {
			t.Errorf("the first day (-want +got):\n%s", diff)
		}
		last := report.Period{From: "2026-11-28", To: "2026-11-28"}
		bobs := func(s report.Summary) bool { return s.Owner == "bob" }
		if diff := cmp.Diff(report.Spending{
			Usage: []report.Share{{Model: "one", Owner: "bob", Used: used(1, 1, 30, 300)}}, Days: []report.DayUse{{Day: "2026-11-28", Used: used(1, 1, 30, 300)}},
		}, s.usage(kept, last, bobs)); diff != "" {
			t.Errorf("bob's second day (-want +got):\n%s", diff)
		}
		if got := s.usage(kept, report.Period{From: "2026-11-29"}, nil); len(got.Usage)+len(got.Days) > 0 {
			t.Errorf("%+v", got)
		}
	})
}
