package chaos

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/turnlog/turnlog/internal/testing/torture"
)

// defaultSeed has most kinds of faults.
const (
	defaultSeed     = 635
	defaultDuration = 6 * time.Second
)

var (
	seed     = flag.Uint64("chaos.seed", defaultSeed, "the first seed")
	runs     = flag.Uint64("chaos.runs", 1, "how many seeds to run")
	duration = flag.Duration("chaos.duration", defaultDuration, "how long each run has faults")
	sessions = flag.Int("chaos.sessions", 12, "sessions at once")
)

func TestADeploymentSurvivesTorture(t *testing.T) {
	t.Parallel()
	for s := *seed; s < *seed+*runs; s++ {
		kinds := 2
		if s == defaultSeed && *duration >= defaultDuration {
			kinds = 8
		}
		if r := survives(t.Context(), t, torture.Config{Seed: s, Duration: *duration, Sessions: *sessions}); len(r.Faults) < kinds {
			t.Errorf("seed %d: faults = %v, so this run proves little", s, r.Faults)
		}
	}
}

// survives runs the torture and reports what it found.
func survives(ctx context.Context, t *testing.T, c torture.Config) torture.Result {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("repeat it with: go test ./tests/chaos -count 1 -run '^%s$' -chaos.seed %d -chaos.duration %v -chaos.sessions %d", t.Name(), c.Seed, *duration, *sessions)
		}
	}()
	r, err := torture.Run(ctx, c)
	if err != nil {
		t.Fatalf("seed %d: %v", c.Seed, err)
	}
	t.Logf("seed %d: %d of %d sessions, %d commands, %d entries, %d calls, faults %v, recovery %+v",
		r.Seed, r.SessionsFinished, r.SessionsTotal, r.Commands, r.Entries, r.Calls, r.Faults, r.Recovery)
	for _, v := range r.Found {
		t.Errorf("seed %d: %v", r.Seed, v)
	}
	if r.Kept != "" {
		t.Errorf("seed %d: journals and a log are in %s", r.Seed, r.Kept)
	}
	if r.Calls == 0 || r.SessionsTotal < c.Sessions {
		t.Errorf("seed %d: %d sessions made %d calls, so this run proves little", r.Seed, r.SessionsTotal, r.Calls)
	}
	return r
}
