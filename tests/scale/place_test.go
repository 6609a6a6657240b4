package main

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"
)

func TestSessionsAreSpreadEvenly(t *testing.T) {
	t.Parallel()
	w := world{sessions: 100_000, cells: 100, tenants: 1_000}
	for _, p := range []policy{bySession, byTenant, byTenantInFour} {
		sum := 0
		for _, n := range w.place(p) {
			sum += n
		}
		if sum != w.sessions {
			t.Errorf("%s: %d sessions are placed, want all", p, sum)
		}
	}
	if most := w.place(bySession)[0]; most > 1_150 { // 1000 on average; the standard deviation is 32
		t.Errorf("the fullest cell has %d sessions", most)
	}
	whole, spread := w.place(byTenant)[0], w.place(byTenantInFour)[0]
	if largest := 1 / 7.485; float64(whole) < largest*float64(w.sessions)-1 || spread > whole/2 {
		t.Errorf("the fullest cell has %d sessions, and %d if tenants have four; want all of the largest tenant, and less than half", whole, spread)
	}
}

// An additional cell takes its share, and no session moves between the others.
func TestACellMoreTakesItsShare(t *testing.T) {
	t.Parallel()
	w := world{sessions: 50_000, cells: 100, tenants: 1}
	if got, want := w.moves(), 1.0/101; math.Abs(got-want) > want/4 {
		t.Errorf("%.2f %% move, want %.2f %%", 100*got, 100*want)
	}
	for key := range 5_000 {
		if before, after := highest(key, 100), highest(key, 101); after != before && after != 100 {
			t.Errorf("session %d moves from cell %d to %d", key, before, after)
		}
	}
}

func TestTheTableHasEachPolicy(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run([]string{"--sessions", "1000", "--cells", "10", "--tenants", "10", "--server-bytes", "1000000"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"session     mean       100  0.10 GB", "tenant, in 4  fullest", "A cell more: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if err := run([]string{"--cells", "0"}, &out); err == nil || !strings.Contains(err.Error(), "--cells 0") {
		t.Errorf("no cells: %v", err)
	}
}

// docs/scale.md shows what the command prints.
func TestThePageShowsTheTable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(nil, &out); err != nil {
		t.Fatal(err)
	}
	want := bytes.NewBufferString("    $ go run ./tests/scale\n")
	for line := range strings.Lines(out.String()) {
		want.WriteString(strings.TrimRight("    "+line, " \n") + "\n")
	}
	if !bytes.Contains(page, want.Bytes()) {
		t.Errorf("docs/scale.md does not show\n%s", want)
	}
}
