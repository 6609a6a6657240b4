package report

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/s2"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/looptest"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/turnlogtest"
)

// TestAnAccountHasWhatTheCoreCounted compares the account of every script of the core with its state: all turns and usage but that of
// sub-agents, and the model.
func TestAnAccountHasWhatTheCoreCounted(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../loop/testdata/*.txt")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	costs := 0
	for _, file := range files {
		script, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var a account
		var parts []account
		var children content.Usage
		state := loop.New("s")
		for _, rec := range looptest.Records(t, string(script)) {
			state.Fold(rec.Entry)
			a.count(rec.Entry)
			if rec.Seq%3 == 1 {
				parts = append(parts, account{})
			}
			parts[len(parts)-1].count(rec.Entry)
			for _, ev := range rec.Entry.Events {
				if u, ok := ev.(events.UsageUpdated); ok && u.Source == "child" {
					children = children.Add(u.Usage)
				}
			}
		}
		if diff := cmp.Diff(a, sumOf(t, parts...)); diff != "" {
			t.Errorf("%s: the parts of an account add up to another one (-want +got):\n%s", filepath.Base(file), diff)
		}
		if state.Deleted != nil {
			continue
		}
		var all spent
		for _, s := range a.Spent {
			all.join(s)
		}
		costs += int(all.Usage.CostMicros)
		all.Usage = all.Usage.Add(children)
		all.Usage.Currency = state.Used.Usage.Currency
		if diff := cmp.Diff(state.Used.Usage, all.Usage); diff != "" || all.Turns != state.Turns || a.Model != state.Config.Model || a.Seq != state.Seq {
			t.Errorf("%s: %d turns of %s, want %d of %s; usage (-want +got):\n%s", filepath.Base(file), all.Turns, a.Model, state.Turns, state.Config.Model, diff)
		}
	}
	if costs == 0 {
		t.Error("no script has costs")
	}
}

// sumOf adds up accounts as those in pages.
func sumOf(t *testing.T, parts ...account) account {
	t.Helper()
	var rows [][]byte
	for _, p := range parts {
		rows = append(rows, s2.Encode(nil, (&keptRow{Summary: Summary{Session: "s"}, spent: p.encode()}).append(nil)))
	}
	all, err := accountsOf(rows)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d accounts, %v", len(all), err)
	}
	return *all["s"]
}

func TestAnAccountBeginsAgain(t *testing.T) {
	t.Parallel()
	old, now := spent{Day: "2026-11-27", Model: "one", Turns: 3}, spent{Day: "2026-11-28", Model: "two", Turns: 4}
	got := sumOf(t, account{Seq: 9, Model: "one", Spent: []spent{old}}, account{Seq: 2, Model: "two", Spent: []spent{now}, Fresh: true}, account{Seq: 3, Partial: true})
	if diff := cmp.Diff(account{Seq: 3, Model: "two", Spent: []spent{now}, Partial: true}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAnAccountKeepsItsLatestDays(t *testing.T) {
	t.Parallel()
	var a account
	a.count(events.Entry{Seq: 1, Events: []events.Event{events.RunStarted{Config: events.Config{Model: "m"}}}})
	first := time.Date(2026, 1, 31, 23, 0, 0, 0, time.FixedZone("", -3600)) // a day later in UTC
	const days = 3 * mostSpent
	for i := range days {
		at := content.TimeOf(first.AddDate(0, 0, i))
		for range 2 {
			a.count(events.Entry{Seq: a.Seq + 1, At: at, Events: []events.Event{
				events.TurnStarted{}, events.UsageUpdated{Source: "model", Usage: content.Usage{InputTokens: 1, CostMicros: 2, Currency: "EUR"}},
			}})
		}
	}
	rest := days - mostSpent + 1
	if len(a.Spent) != mostSpent || a.Spent[0] != (spent{"", "m", 2 * rest, content.Usage{InputTokens: int64(2 * rest), CostMicros: int64(4 * rest), Currency: "EUR"}}) {
		t.Errorf("%d parts, the first is %+v", len(a.Spent), a.Spent[0])
	}
	if last := a.Spent[mostSpent-1]; last != (spent{DayOf(first.AddDate(0, 0, days-1)), "m", 2, content.Usage{InputTokens: 2, CostMicros: 4, Currency: "EUR"}}) {
		t.Errorf("the last day is %+v", last)
	}
	if DayOf(first) != "2026-02-01" || !slices.IsSortedFunc(a.Spent, func(a, b spent) int { return strings.Compare(string(a.Day), string(b.Day)) }) {
		t.Errorf("days %s … of %s", fmt.Sprint(a.Spent[:3]), first)
	}
}

// TestASessionThatWentBackIsCountedAgain has a session continue from before the last counted entry, as after a
// restore.
func TestASessionThatWentBackIsCountedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := turnlogtest.Empty(t.Context(), t)
		var head journal.Head
		use := content.Usage{InputTokens: 3}
		for _, evs := range [][]events.Event{
			{events.DriverClaimed{Epoch: 1, Node: "n"}, events.RunStarted{Config: events.Config{Model: "m"}}},
			{events.TurnStarted{Turn: "t"}, events.UsageUpdated{Source: "model", Usage: use}},
		} {
			var err error
			if head, err = d.Cell.Journal().Append(d.Ctx, head, events.Entry{Session: "s", Epoch: 1, Cause: "c" + strconv.FormatUint(head.Seq, 10), Events: evs}); err != nil {
				t.Fatal(err)
			}
		}
		lost := &account{Seq: 9, Spent: []spent{{Day: "2026-11-28", Usage: content.Usage{InputTokens: 4000}}}}
		l := ledger{of: map[content.SessionID]*account{"s": lost}}
		for rec, err := range l.at.Entries(d.Ctx, d.Client) {
			if err == nil {
				err = l.count(d.Ctx, d.Client, rec)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if a := l.of["s"]; a.Seq != 2 || len(a.Spent) != 1 || a.Spent[0].Usage != use || a.Model != "m" {
			t.Errorf("%+v", a)
		}
	})
}
