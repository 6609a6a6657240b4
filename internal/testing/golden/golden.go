// Package golden compares the output of a test with a file, and rewrites the file on request.
package golden

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Flag adds the flag -update to the test binary. Call it once per package, in a variable.
func Flag() *bool {
	return flag.Bool("update", false, "rewrite the expected output in files; review the diff")
}

// Check compares got with a file, or writes the file if update is set.
func Check(t testing.TB, update bool, path, got string) {
	t.Helper()
	if update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), run with -update and review the diff:\n%s", path, diff)
	}
}

// Line returns a value as one line of JSON.
func Line(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
