package sessions

import (
	"slices"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/admin"
)

func TestSessionsToCollectAreSelected(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	held := []admin.Holding{
		{Session: "half", Entries: 3, Bytes: 5, Changed: now.Add(-100 * day), Deleted: true},
		{Session: "grave", Entries: 1, Bytes: 5, Changed: now.Add(-99 * day), Deleted: true},
		{Session: "old", Entries: 9, Bytes: 10, Changed: now.Add(-91 * day)},
		{Session: "idle", Entries: 9, Bytes: 30, Changed: now.Add(-30 * day)},
		{Session: "later", Entries: 9, Bytes: 40, Changed: now.Add(-20 * day)},
		{Session: "busy", Entries: 9, Bytes: 60, Changed: now.Add(-time.Hour)},
	}
	for _, tt := range []struct {
		age, bytes string
		want       []content.SessionID
	}{
		{"", "", []content.SessionID{"half"}},
		{"90d", "", []content.SessionID{"half", "old"}},
		{"90d", "135", []content.SessionID{"half", "old"}},
		{"90d", "134", []content.SessionID{"half", "old", "idle"}},
		{"", "105", []content.SessionID{"half", "old", "idle"}},
		{"", "0.1kB", []content.SessionID{"half", "old", "idle", "later"}},
	} {
		var r retention
		if err := r.parse(tt.age, tt.bytes, "7d"); err != nil {
			t.Fatal(err)
		}
		var got []content.SessionID
		for _, e := range r.pick(held, now) {
			got = append(got, e.Session)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("older than %q, at most %q: %v, want %v", tt.age, tt.bytes, got, tt.want)
		}
	}
}

func TestSizesAndAgesAreRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"x", "-1", "1kk", "1e30", "NaN", "GiB"} {
		if err := new(retention).parse("", text, "7d"); err == nil {
			t.Errorf("--keep-bytes %q is accepted", text)
		}
	}
	for text, want := range map[string]time.Duration{"90d": 2160 * time.Hour, "0.5d": 12 * time.Hour, "12h30m": 12*time.Hour + 30*time.Minute} {
		if got, err := parseAge(text); err != nil || got != want {
			t.Errorf("parseAge(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "0d", "-3d", "3", "1e9d", "NaNd"} {
		if got, err := parseAge(text); err == nil {
			t.Errorf("parseAge(%q) = %v", text, got)
		}
	}
}
