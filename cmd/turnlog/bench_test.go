package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/testing/clitest"
)

// TestABenchmarkPrintsWhatRoundTripsNeed runs benchmarks as processes: they collect their garbage before they measure, which
// takes its time among other tests.
func TestABenchmarkPrintsWhatRoundTripsNeed(t *testing.T) {
	t.Parallel()
	bin, err := clitest.Build(t.Context(), "./cmd/turnlog")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, v := range []struct{ args, want string }{
		{"--sessions 2 --rounds 3 --cpuprofile cpu.out --memprofile allocs.out", `(?m)^2 sessions +turnlog +floor +ratio +lean floor +ratio$(.|\n)+^CPU us/trip +[1-9]`},
		{
			"--sessions 1 --rounds 2 --runs 2 --transport tcp --sync -o json",
			`^{"sessions":1,"rounds":2,"runs":2,"turnlog":{"trips_per_s":.+},"floor":{.+},"lean_floor":{.+},"ratio":{.+},"ratio_lean":{.+}}\n$`,
		},
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "turnlog"), append([]string{"bench"}, strings.Fields(v.args)...)...)
		cmd.Dir, cmd.Stderr = dir, t.Output()
		out, err := cmd.Output()
		if err != nil || !regexp.MustCompile(v.want).Match(out) {
			t.Errorf("turnlog bench %s: %v\n%s", v.args, err, out)
		}
	}
	for _, name := range []string{"cpu.out", "allocs.out"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

func TestABenchmarkEndsWithAnInterrupt(t *testing.T) {
	t.Parallel()
	p := prepare(t, strings.NewReader(""), nil)
	p.signals <- os.Interrupt // it is read when the benchmark is about to begin
	p.start(t, "bench", "--sessions", "1", "--rounds", "1000000")
	if code := p.end(t); code != 130 || !strings.Contains(p.err.String(), "interrupted") {
		t.Errorf("code %d, out %q, err %q", code, p.out, p.err)
	}
}
