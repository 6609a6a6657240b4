package evidence

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/natstest"
)

// claims has a driver claim the session. The claim is c.
func (s *stage) claims(by *keys.Signer, epoch uint64, c events.DriverClaimed, more ...events.Event) {
	s.t.Helper()
	last, err := s.cell.Journal().Last(s.t.Context(), "s-1")
	natstest.Must(s.t, err)
	s.end = last.Head
	c.Epoch, c.Node, c.Keys = epoch, "n2", 1
	e := entry(epoch, append([]events.Event{c}, more...)...)
	e.Cause = fmt.Sprint("claim/", epoch)
	s.extend(by, e)
}

// inNameOf makes the signatures of all entries from one on name a different key than the one that made them.
func (s *stage) inNameOf(k *keys.Signer, from int) {
	s.replay(func(m []*nats.Msg) []*nats.Msg {
		for _, m := range m[from-1:] {
			_, signature, _ := strings.Cut(m.Header.Get("Turnlog-Sig"), ".")
			m.Header.Set("Turnlog-Sig", k.ID()+"."+signature)
		}
		return m
	})
}

// TestEveryFalseClaimIsFound has entries 1 to 9 of one driver, and claims that say what it checked, that its session was restored, or
// that a stranger wrote in its name. Verifiers that check one signature of each key must find the same as those that check all.
func TestEveryFalseClaimIsFound(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	restored := &events.Restored{Backup: "b1", Taken: 1}
	own := func(checked uint64) func(*stage) {
		return func(s *stage) { s.claims(s.node, 2, events.DriverClaimed{Key: s.node.ID(), Checked: checked}) }
	}
	pretends := func(s *stage) {
		s.claims(s.stranger, 2, events.DriverClaimed{Key: s.node.ID(), Checked: 9}, events.Warning{Code: "forged"})
		s.inNameOf(s.node, 10)
	}
	const at = content.Time(1_700_000_000_000_000_100) // of the claim
	restore := func(by events.Restored, at content.Time) func(*stage) {
		return func(s *stage) {
			s.restores = []verdict.Restore{{At: at, Restored: by}}
			s.claims(s.node, 2, events.DriverClaimed{Key: s.node.ID(), Restored: restored})
		}
	}
	unnamed := func(s *stage) {
		s.restores = []verdict.Restore{{At: at.Add(time.Hour), Restored: events.Restored{Backup: "b1", Taken: at.Add(time.Hour)}}}
	}
	from := events.MovedFrom{Cell: "b", Tombstone: events.HashOf([]byte("tombstone"))}
	arrive := func(from events.MovedFrom) func(*stage) {
		return func(s *stage) {
			e := entry(2, events.DriverClaimed{Epoch: 2, Node: "move", Keys: 1, Key: s.node.ID(), MovedFrom: &from})
			e.At = at.Add(2 * time.Hour)
			s.extend(s.node, e)
			s.replay(func(m []*nats.Msg) []*nats.Msg {
				for _, m := range m[:9] {
					m.Header.Set("Turnlog-Stored", "2026-11-28T12:00:00Z")
				}
				return m
			})
		}
	}
	for _, row := range []scene{
		{"claim: it checked its last entry", own(9), "", 0, 0},
		{"claim: it checked nothing", own(0), "", 0, 0},
		{"claim: it checked an earlier entry", own(5), verdict.Forged, 10, 1},
		{"claim: it checked itself", own(10), verdict.Forged, 10, 1},
		{"claim: it checked what is not there yet", own(99), verdict.Forged, 10, 1},
		{"claim: it checked the entry of another driver", func(s *stage) {
			s.claims(s.other, 2, events.DriverClaimed{Key: s.other.ID(), Checked: 9})
		}, verdict.Forged, 10, 1},
		{"claim: unsigned, and it checked one", func(s *stage) { s.claims(nil, 2, events.DriverClaimed{Checked: 9}) }, verdict.Forged, 10, 1},
		{"claim: by an older directory of keys than the driver before", func(s *stage) {
			s.dir.Version = 3
			s.known = s.opened(&s.dir)
			s.extend(s.node, entry(2, events.DriverClaimed{Epoch: 2, Node: "n1", Key: s.node.ID(), Keys: 3, Checked: 9}))
			e := entry(3, events.DriverClaimed{Epoch: 3, Node: "n1", Key: s.node.ID(), Keys: 2, Checked: 10})
			e.Cause = "claim/3"
			s.extend(s.node, e)
		}, verdict.Forged, 11, 1},
		{"claim: by a newer directory of keys, then by none", func(s *stage) {
			s.dir.Version = 3
			s.known = s.opened(&s.dir)
			s.extend(s.node, entry(2, events.DriverClaimed{Epoch: 2, Node: "n1", Key: s.node.ID(), Keys: 3, Checked: 9}))
			e := entry(3, events.DriverClaimed{Epoch: 3, Node: "restore", Key: s.node.ID(), Checked: 10})
			e.Cause = "claim/3"
			s.extend(s.node, e)
		}, "", 0, 0},
		{"claim: in the name of a driver", pretends, verdict.Forged, 10, 1},
		{"claim: in the name of a driver that goes on from a snapshot", func(s *stage) {
			pretends(s)
			s.claims(s.node, 3, events.DriverClaimed{Key: s.node.ID()})
		}, verdict.Forged, 10, 1},
		{"claim: in the name of a driver, before another one", func(s *stage) {
			pretends(s)
			s.claims(s.other, 3, events.DriverClaimed{Key: s.other.ID()})
		}, verdict.Forged, 10, 1},
		{"claim: in the name of a driver, by another one", func(s *stage) {
			s.claims(s.other, 2, events.DriverClaimed{Key: s.node.ID(), Checked: 9})
			s.inNameOf(s.node, 10)
			s.claims(s.other, 3, events.DriverClaimed{Key: s.other.ID()})
		}, verdict.Forged, 10, 1},
		{"claim: a thief covers what it cannot sign", func(s *stage) {
			s.dir.Keys[0].Revoked = &keys.Revocation{At: content.Time(4e18), Stolen: true} // found out later
			s.known = s.opened(&s.dir)
			s.replay(func(m []*nats.Msg) []*nats.Msg {
				m[8].Header.Set("Turnlog-Sig", m[7].Header.Get("Turnlog-Sig"))
				return m
			})
			own(9)(s)
		}, verdict.Forged, 9, 1},
		{"restore: signed", restore(*restored, at), "", 0, 0},
		{"restore: unsigned", func(s *stage) {
			restore(*restored, at)(s)
			s.replay(func(m []*nats.Msg) []*nats.Msg { return m[:9] })
			s.claims(nil, 2, events.DriverClaimed{Restored: restored})
		}, "", 0, verdict.ExitBelow},
		{"restore: the deployment does not say so", func(s *stage) { restore(*restored, at)(s); s.restores = nil }, verdict.Forged, 10, 1},
		{"restore: from another backup", restore(events.Restored{Backup: "b2", Taken: 1}, at), verdict.Forged, 10, 1},
		{"restore: from a later backup", restore(events.Restored{Backup: "b1", Taken: 2}, at), verdict.Forged, 10, 1},
		{"restore: at another time", restore(*restored, at-1), verdict.Forged, 10, 1},
		{"restore: twice", func(s *stage) {
			restore(*restored, at)(s)
			s.claims(s.node, 3, events.DriverClaimed{Key: s.node.ID(), Restored: restored})
		}, verdict.Forged, 11, 1},
		{"restore: of before the session began", func(s *stage) { // at the time of the entry before, as if that driver's clock were ahead
			e := entry(2, events.DriverClaimed{Epoch: 2, Node: "restore", Keys: 1, Key: s.node.ID(), Restored: restored})
			e.At = 1_700_000_000_000_000_008
			s.extend(s.node, e)
			s.restores = []verdict.Restore{{At: e.At.Add(-time.Hour), Restored: *restored}}
		}, verdict.Forged, 10, 1},
		{"restore: the clock of the last driver was ahead", func(s *stage) {
			e := entry(2, events.DriverClaimed{Epoch: 2, Node: "restore", Keys: 1, Key: s.node.ID(), Restored: restored})
			e.At = 1_700_000_000_000_000_008
			s.extend(s.node, e)
			s.restores = []verdict.Restore{{At: e.At.Add(-time.Minute), Restored: *restored}}
		}, "", 0, 0},
		{"restore: the deployment alone says so", unnamed, verdict.Forged, 0, 1},
		{"restore: the deployment had it before the session began", func(s *stage) {
			s.restores = []verdict.Restore{{At: 2, Restored: *restored}}
		}, "", 0, 0},
		{"move: here", arrive(from), "", 0, 0},
		{"move: here, after a restore", func(s *stage) { unnamed(s); arrive(from)(s) }, "", 0, 0},
		{"move: of entries that were written here", func(s *stage) {
			s.claims(s.node, 2, events.DriverClaimed{Key: s.node.ID(), MovedFrom: &from})
		}, verdict.Forged, 10, 1},
		{"move: with an entry of the session as its tombstone", func(s *stage) {
			last, err := s.cell.Journal().Last(s.t.Context(), "s-1")
			natstest.Must(s.t, err)
			arrive(events.MovedFrom{Cell: "b", Tombstone: last.Hash, Entry: last.Payload})(s)
		}, verdict.Forged, 10, 1},
		{"move: of entries of which one was written here", func(s *stage) {
			arrive(from)(s)
			s.replay(func(m []*nats.Msg) []*nats.Msg { m[8].Header.Del("Turnlog-Stored"); return m })
		}, verdict.Forged, 9, 1},
		{"move: of no entries, after a restore", func(s *stage) {
			unnamed(s)
			s.claims(s.node, 2, events.DriverClaimed{Key: s.node.ID(), MovedFrom: &from})
		}, verdict.Forged, 10, 1},
		{"restore: unsigned, although it is required", func(s *stage) {
			s.dir.Require(keys.Driver, 1)
			s.known = s.opened(&s.dir)
			s.claims(nil, 2, events.DriverClaimed{Restored: restored})
		}, verdict.Forged, 10, 1},
		{"restore: by a stranger", func(s *stage) {
			s.claims(s.stranger, 2, events.DriverClaimed{Key: s.stranger.ID(), Restored: restored})
		}, verdict.Forged, 10, 1},
		{"restore: in the same epoch", func(s *stage) { s.claims(s.node, 1, events.DriverClaimed{Key: s.node.ID(), Restored: restored}) }, verdict.Forged, 10, 1},
		{"restore: in the middle of an entry", func(s *stage) {
			e := entry(2, events.Warning{Code: "x"}, events.DriverClaimed{Epoch: 2, Key: s.node.ID(), Restored: restored})
			s.extend(s.node, e)
		}, verdict.Forged, 10, 1},
	} {
		s.prepare(t)
		row.do(s)
		for _, every := range []bool{false, true} {
			v, err := s.judge(every)
			first, _ := v.First()
			if exit := v.Exit(verdict.Signed); first.Kind != row.kind || first.Seq != row.seq || exit != row.exit || errors.Join(err, s.failed) != nil {
				t.Errorf("%s, every signature %t: exit code %d, %v, %v\nwant %d, entry %d, %s", row.name, every, exit, v.Faults, err, row.exit, row.seq, row.kind)
			}
		}
	}
}
