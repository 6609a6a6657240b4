package turnlogtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// EveryCrash runs a scenario in virtual time, and then again for each entry that its sessions appended.
// In each of these runs the node is killed after that entry, and another node takes over. The test fails
// if a run ends with transcripts that differ from the first run, breaks an invariant, or fails.
//
// Tool calls of the scenario may run again if their tools declare that this is safe. A scenario can check
// how often they ran.
func EveryCrash(t *testing.T, scenario func(*testing.T, *Deployment), opts ...Option) {
	t.Helper()
	var want string
	var entries int
	play := func(name string, after int, then func(t *testing.T, d *Deployment, outcome string)) {
		t.Run(name, func(t *testing.T) {
			Bubble(t, func(t *testing.T, d *Deployment) {
				scenario(t, d)
				then(t, d, d.outcome())
			}, append(slices.Clip(opts), CrashAfter(after))...)
		})
	}
	play("no crash", 0, func(_ *testing.T, d *Deployment, outcome string) {
		want, entries = outcome, int(d.appends.Load())
	})
	for n := 1; n <= entries && !t.Failed(); n++ {
		play(fmt.Sprintf("crash after entry %d", n), n, func(t *testing.T, _ *Deployment, outcome string) {
			t.Helper()
			if diff := cmp.Diff(want, outcome); diff != "" {
				t.Errorf("transcripts after the crash (-without +with):\n%s", diff)
			}
		})
	}
}

// outcome returns the transcripts of the sessions that the test opened, after an audit of each.
func (d *Deployment) outcome() string {
	d.T.Helper()
	d.mu.Lock()
	sessions := d.sessions
	d.mu.Unlock()
	var b strings.Builder
	for n, s := range sessions {
		s.ExpectInvariants()
		fmt.Fprintf(&b, "session %d\n%s\n", n+1, strings.Join(Lines(s.Snapshot().Transcript), "\n"))
	}
	return b.String()
}
