package admin

import "testing"

func TestMismatchesAreListedOnePerLine(t *testing.T) {
	t.Parallel()
	err := error(&MismatchError{Differences: []Difference{
		{Object: "A", Setting: "storage", Have: "file", Want: "memory"},
		{Object: "B > c", Setting: "ack_wait", Have: "3s", Want: "12s"},
	}})
	want := "streams with the cell's names have other settings\nA: storage is file, must be memory\nB > c: ack_wait is 3s, must be 12s"
	if err.Error() != want {
		t.Errorf("error = %q, want %q", err, want)
	}
}
