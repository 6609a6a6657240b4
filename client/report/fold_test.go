package report

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/turnlogtest"
)

// TestSetsCountInTheOrderOfTheJournal folds pages of writers that stop, are late, or write at the same time. A set is one of "a:3-5/2", the first of two
// pages of the set a, which goes from 3 to 5; from 0 it has all.
func TestSetsCountInTheOrderOfTheJournal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pages string
		at    uint64
		rows  string
	}{
		{"", 0, ""},
		{"a:0-5/1 b:5-7/1", 7, "a b"},
		{"a:0-5/2 a:0-5/2 b:5-7/1", 7, "a a b"},
		{"a:0-5/2 b:5-7/1", 0, ""},                                     // the writer of a stopped
		{"a:0-5/1 b:5-9/2 c:5-7/1 d:7-8/1", 8, "a c d"},                // that of b did
		{"a:0-5/1 b:5-7/1 c:5-9/1 d:7-8/1", 8, "a b d"},                // that of c was late
		{"a:0-5/1 b:5-7/1 all:0-7/1 c:7-8/1", 8, "all c"},              // they became one
		{"b:5-7/1 all:0-7/1 c:7-8/1", 8, "all c"},                      // and those before are removed
		{"a:0-5/1 all:0-5/2 b:5-7/1 all:0-5/2", 5, "all all"},          // b was written meanwhile,
		{"a:0-5/1 x:0-5/2 y:0-5/2 x:0-5/2 y:0-5/2", 5, "y y"},          // twice at the same time
		{"a:0-5/1 a2:0-5/1 b:5-7/1 other:0-2/1 c:2-3/1", 3, "other c"}, // of another journal
		{"a:0-5/1 b!5-7/1 c:5-6/1", 6, "a c"},                          // of another release
	} {
		var f folded
		began := time.Now()
		parts := map[string]int{}
		for text := range strings.FieldsSeq(tt.pages) {
			p := page{Format: pageFormat}
			var name string
			if strings.Contains(text, "!") {
				p.Format++
				text = strings.Replace(text, "!", ":", 1)
			}
			name, text, _ = strings.Cut(text, ":")
			if _, err := fmt.Sscanf(text, "%d-%d/%d", &p.From.At.Position, &p.At.At.Position, &p.Parts); err != nil {
				t.Fatal(err)
			}
			p.Set, p.Part, p.Rows = name, parts[name], []byte(name)
			f.fold(p, began)
			f.fold(p, began) // it was sent twice
			parts[name]++
		}
		var rows []string
		for _, r := range f.rows {
			rows = append(rows, string(r))
		}
		if got := strings.Join(rows, " "); f.at.At.Position != tt.at || got != tt.rows || f.newer.Equal(began) != strings.Contains(tt.pages, "!") {
			t.Errorf("%s: %q at %d, newer %v; want %q at %d", tt.pages, got, f.at.At.Position, f.newer, tt.rows, tt.at)
		}
	}
}

// TestSetsThatDoNotCountAreMergedToo folds sets of writers that were late: they take space until all sets are merged.
func TestSetsThatDoNotCountAreMergedToo(t *testing.T) {
	t.Parallel()
	f := folded{}
	for i := range 5 {
		p := page{Format: pageFormat, Set: strconv.Itoa(i), Parts: 1, Rows: make([]byte, 10)}
		if p.At.At.Position = 5; i > 0 {
			p.From.At.Position, p.At.At.Position = 1, 2
		}
		f.fold(p, time.Time{})
	}
	if f.base != 10 || f.added != 40 {
		t.Errorf("sizes %d and %d, want 10 of the complete set and 40 of those that are late", f.base, f.added)
	}
}

// TestOnlyAListThatIsThereIsMerged merges while the complete set is missing, after a page of a later release was added, and once that is
// old.
func TestOnlyAListThatIsThereIsMerged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := turnlogtest.Empty(t.Context(), t)
		k := keeper{c: d.Client}
		add := func(p page) {
			t.Helper()
			data, err := wire.Marshal(&p, wire.Snapshot)
			if err == nil {
				_, err = k.c.Pages().Add(d.Ctx, data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		merge := func(what string, want int) {
			t.Helper()
			k.whole = time.Now()
			if err := k.merge(d.Ctx); err != nil {
				t.Fatal(err)
			}
			pages := 0
			for _, err := range k.c.Pages().After(d.Ctx, 0) {
				if err != nil {
					t.Fatal(err)
				}
				pages++
			}
			if merged := !k.whole.IsZero(); pages != want || merged != (what == "all") {
				t.Errorf("%s: %d pages, want %d; merged: %v", what, pages, want, merged)
			}
		}
		add(page{Format: pageFormat, Set: "a", Parts: 2})
		merge("no complete set", 1)
		add(page{Format: pageFormat, Set: "b", Parts: 1, Rows: packed(slices.Values([]keptRow{{kind: rowListed, Summary: Summary{Session: "s"}}}))[0]})
		add(page{Format: pageFormat + 1})
		merge("a page of a later release", 3)
		if err := k.read(d.Ctx, k.c); err != nil {
			t.Fatal(err)
		}
		merge("all", 1)
	})
}

func TestTheFirstRowsAreThoseOfTheWholeOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable
	compare := Query{Sort: "turns"}.compare
	for _, n := range []int{1, 7, 100} {
		for size := n; size < 1000; size += 1 + size/5 {
			rows := make([]*Summary, size)
			for i := range rows {
				rows[i] = &Summary{Session: content.SessionID(strconv.Itoa(i)), Turns: random.IntN(20)}
			}
			want := slices.SortedFunc(slices.Values(rows), compare)[:n]
			if got := first(rows, n, compare); !slices.Equal(got, want) {
				t.Fatalf("the first %d of %d rows differ", n, size)
			}
		}
	}
}

// TestAPageIsReadable packs rows of any size. A row larger than a page becomes one that lists read from the session, with its account, or
// how far that goes.
func TestAPageIsReadable(t *testing.T) {
	t.Parallel()
	spent, large := (&account{Seq: 7, Model: "m"}).encode(), (&account{Seq: 9, Model: strings.Repeat("m", pageSize)}).encode()
	var rows []keptRow
	for i, size := range []int{10, 3 * pageSize, pageSize - 100, pageSize - 100, 10} {
		rows = append(rows, keptRow{kind: rowListed, spent: spent, Summary: Summary{Session: content.SessionID(strconv.Itoa(i)), Folder: strings.Repeat("x", size)}})
	}
	rows = append(rows, keptRow{kind: rowListed, spent: large, Summary: Summary{Session: "5"}})
	pages := packed(slices.Values(rows))
	var got []string
	if err := each(pages, func(r keptRow) { got = append(got, fmt.Sprint(r.Session, r.kind == rowUnread)) }); err != nil {
		t.Fatal(err)
	}
	if want := "[0false 1true 2false 3false 4false 5true]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	of, err := accountsOf(pages)
	if err != nil || of["1"].Seq != 7 || of["1"].Partial || of["5"].Seq != 9 || !of["5"].Partial {
		t.Errorf("accounts %+v and %+v, %v", of["1"], of["5"], err)
	}
}
