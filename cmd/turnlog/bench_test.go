package main

import (
	"os"
	"strings"
	"testing"
)

func TestABenchmarkEndsWithAnInterrupt(t *testing.T) {
	t.Parallel()
	p := prepare(t, strings.NewReader(""), nil)
	p.signals <- os.Interrupt // it is read when the benchmark is about to begin
	p.start(t, "bench", "--sessions", "1", "--rounds", "1000000")
	if code := p.end(t); code != 130 || !strings.Contains(p.err.String(), "interrupted") {
		t.Errorf("code %d, out %q, err %q", code, p.out, p.err)
	}
}
