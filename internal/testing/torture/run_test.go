package torture

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// The first turn of each session takes longer than the faults and makes no call.
const slow = `
replies:
  - {text: let me think, delay: 5s}
  - {calls: [{name: torture_read, input: {ms: 1}}]}
  - {text: done}
repeat: true
`

func TestARunThatIsSlowStillDoesEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		r, err := Run(t.Context(), Config{
			Seed: 1, Duration: time.Second, Sessions: 3, Server: srv, Dir: t.TempDir(), Kinds: []Kind{ConnectionsCut},
			Workload: Workload{Config: func(content.SessionID) events.Config {
				return events.Config{Model: "scripted:slow", ModelData: []byte(slow)}
			}},
			OnFault: func(f Fault) { t.Log(f) },
		})
		if err != nil {
			t.Fatal(err)
		}
		if r.Calls < 3 || r.Faults[ConnectionsCut] == 0 || !r.OK() {
			t.Errorf("Run = %+v, want a call for each of three sessions", r)
		}
		synctest.Wait()
	})
}
