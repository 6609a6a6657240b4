package turnlogtest_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/events/seal"
	"github.com/turnlog/turnlog/turnlogtest"
)

// TestASealedSessionSurvivesEveryCrash has a sealed session ask, run a call and answer.
func TestASealedSessionSurvivesEveryCrash(t *testing.T) {
	t.Parallel()
	turnlogtest.EveryCrash(t, func(t *testing.T, d *turnlogtest.Deployment) {
		s := d.Script(forecast, turnlogtest.Sealed)
		s.Say("How is the weather in Oslo?")
		s.ExpectReply("It is sunny.")
		for r, err := range d.Cell.Sealing(nil).Journal().Read(d.Ctx, s.ID(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(r.Payload), "Oslo") {
				t.Errorf("entry %d shows content", r.Seq)
			}
		}
	}, turnlogtest.Tools(weather()), turnlogtest.SealKeys(sealKeys(t)))
}

func sealKeys(t *testing.T) seal.Ring {
	t.Helper()
	file := filepath.Join(t.TempDir(), "seal.key")
	if _, err := seal.Create(file); err != nil {
		t.Fatal(err)
	}
	ring, err := seal.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}
