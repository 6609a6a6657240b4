package demo

import "testing"

func TestNumbersAreReadable(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 999949: "999.9 kB", 999951: "1.0 MB", 2_500_000_000: "2.5 GB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
	for want, got := range map[string]string{
		"1 file": count(1, "file"), "0 files": count(0, "file"), "2 directories": count(2, "directory"), "3 matches": count(3, "match"),
		"2 classes": count(2, "class"), "4 entries": count(4, "entry"),
	} {
		if got != want {
			t.Errorf("count = %q, want %q", got, want)
		}
	}
}

func TestTablesAlignByRunes(t *testing.T) {
	t.Parallel()
	got := table([][]string{{"ä", "1"}, {"bcd", "22"}, {"e"}}, 1, 1)
	if want := " ä     1\n bcd  22\n e\n"; got != want {
		t.Errorf("table =\n%s\nwant\n%s", got, want)
	}
}

func TestLinesAreWrappedAndClipped(t *testing.T) {
	t.Parallel()
	word := "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" // 30
	if got, want := wrap(word+" "+word+" "+word+" b", 2), "  "+word+" "+word+"\n  "+word+" b\n"; got != want {
		t.Errorf("wrap =\n%s\nwant\n%s", got, want)
	}
	if got, want := clip("\tone two", 5), "one …"; got != want {
		t.Errorf("clip = %q, want %q", got, want)
	}
}
