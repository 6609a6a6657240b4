package actor_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/turnlogtest"
)

// takeovers counts the entries that take over a session.
type takeovers struct{ n atomic.Int64 }

func (c *takeovers) SessionTaken()                 {}
func (c *takeovers) SessionLeft(string)            {}
func (c *takeovers) CommandHandled(string, string) {}
func (c *takeovers) EffectStarted(string)          {}
func (c *takeovers) EntryAppended(_ events.Entry, over bool, _ time.Duration) {
	if over {
		c.n.Add(1)
	}
}

func TestOnlyASessionThatWasNotParkedIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		crash int
		want  int64
	}{"parked": {0, 0}, "in a turn": {3, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var count takeovers
			turnlogtest.Bubble(t, func(_ *testing.T, d *turnlogtest.Deployment) {
				s := d.Script(`replies: [{text: "hi", repeat: true}]`)
				s.Say("one")
				s.ExpectReply("hi")
				d.Until(s.ID(), events.KindParked)
				s.Say("two")
				s.ExpectReply("hi")
			}, turnlogtest.CrashAfter(c.crash), turnlogtest.Node(func(cfg *actor.Config) { cfg.Metrics = &count }))
			if got := count.n.Load(); got != c.want {
				t.Errorf("%d sessions were taken over, want %d", got, c.want)
			}
		})
	}
}
