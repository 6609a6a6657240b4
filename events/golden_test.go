package events

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files that are missing; existing ones are never changed")

// A golden file contains the base64 of an entry with one event, a blank line, and the
// event in JSON. Both are frozen: every later release must read the entry and return
// the same JSON.
func TestGoldenBytesOfEveryKindAreReadAndWrittenUnchanged(t *testing.T) {
	t.Parallel()
	if *update {
		writeMissingGoldens(t)
	}
	for _, k := range Kinds() {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			payload, shown := readGolden(t, k)
			e, err := Decode(payload)
			if err != nil {
				t.Fatalf("Decode: %v", err)
			}
			if !slices.Equal(e.Kinds(), []Kind{k}) {
				t.Fatalf("the entry holds %v, want %v", e.Kinds(), k)
			}
			again, err := e.Encode()
			if err != nil {
				t.Fatalf("Encode: %v", err)
			}
			if !bytes.Equal(again, payload) {
				t.Errorf("the entry is written differently:\n got %q\nwant %q", again, payload)
			}
			if got := indented(t, e.Events[0]); got != shown {
				t.Errorf("the event is shown differently:\n got %s\nwant %s", got, shown)
			}
		})
	}
}

func TestEveryGoldenFileBelongsToAKind(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(files) == 0 {
		t.Fatalf("golden files: %d, %v", len(files), err)
	}
	for _, f := range files {
		k := Kind(strings.TrimSuffix(filepath.Base(f), ".golden"))
		if !slices.Contains(Kinds(), k) {
			t.Errorf("%s: no such kind", f)
		}
	}
}

func goldenPath(k Kind) string { return filepath.Join("testdata", string(k)+".golden") }

func writeMissingGoldens(t *testing.T) {
	t.Helper()
	for _, ev := range samples() {
		path := goldenPath(KindOf(ev))
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			continue
		}
		payload, err := sampleEntry(ev).Encode()
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for line := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString(payload)), 76) {
			fmt.Fprintf(&b, "%s\n", line)
		}
		fmt.Fprintf(&b, "\n%s\n", indented(t, ev))
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func readGolden(t *testing.T, k Kind) (payload []byte, shown string) {
	t.Helper()
	b, err := os.ReadFile(goldenPath(k))
	if err != nil {
		t.Fatalf("no golden bytes (go test ./events -update writes missing ones): %v", err)
	}
	coded, shown, found := strings.Cut(string(b), "\n\n")
	if !found {
		t.Fatalf("%s: no blank line between bytes and view", goldenPath(k))
	}
	payload, err = base64.StdEncoding.DecodeString(coded)
	if err != nil {
		t.Fatal(err)
	}
	return payload, strings.TrimSuffix(shown, "\n")
}

func indented(t *testing.T, ev Event) string {
	t.Helper()
	raw, err := MarshalEvent(ev)
	if err != nil {
		t.Fatalf("MarshalEvent: %v", err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
