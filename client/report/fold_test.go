package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
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
			f.fold(p)
			f.fold(p) // it was sent twice
			parts[name]++
		}
		var rows []string
		for _, r := range f.rows {
			rows = append(rows, string(r))
		}
		if got := strings.Join(rows, " "); f.at.At.Position != tt.at || got != tt.rows || f.newer != strings.Contains(tt.pages, "!") {
			t.Errorf("%s: %q at %d, newer %v; want %q at %d", tt.pages, got, f.at.At.Position, f.newer, tt.rows, tt.at)
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
