package tokens

import (
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream"
)

// Suspects are tokens that perhaps no driver has, although the server would keep them for a long time: of a
// dead node, of this node's former process, or given up. They are returned until another node has them. One
// return is not enough: it may be lost with the server that received it, or the server may give the token to
// a node that hangs, whose requests are still pending. If no node takes a token, the pauses between its
// returns grow.
type Suspects map[content.SessionID]*suspect

type suspect struct {
	token  jetstream.HeldToken
	at     time.Time // when it is due to be returned
	until  time.Time // when the server returns it by itself
	rounds int
}

// leftRounds is after how many rounds a given-up token is returned: another node may just have taken it.
const leftRounds = 2

// Dead adds tokens that a dead process held. They are returned at once.
func (s Suspects) Dead(tokens []jetstream.HeldToken) {
	for _, t := range tokens {
		s.add(t, time.Now(), leftRounds-1)
	}
}

// Later adds tokens of a dead node that another node returns first, in case that node dies, too.
func (s Suspects) Later(tokens []jetstream.HeldToken) {
	for _, t := range tokens {
		s.add(t, time.Now(), 0)
	}
}

// Left adds tokens that drivers gave up.
func (s Suspects) Left(tokens []Left) {
	for _, t := range tokens {
		if t.At.IsZero() {
			s.Dead([]jetstream.HeldToken{t.HeldToken})
		} else {
			s.add(t.HeldToken, t.At, 0)
		}
	}
}

func (s Suspects) add(t jetstream.HeldToken, at time.Time, rounds int) {
	if old := s[t.Session]; old == nil || old.token.Delivery() <= t.Delivery() {
		s[t.Session] = &suspect{t, at, time.Now().Add(jetstream.LongLease), rounds}
	}
}

// Due ends a round. It lists the tokens to return, and forgets those that another node has taken. has returns
// the number of the delivery that a living node has, or 0.
func (s Suspects) Due(has func(content.SessionID) uint64) (due []jetstream.HeldToken) {
	now := time.Now()
	for id, x := range s {
		switch {
		case has(id) > 0 && has(id) >= x.token.Delivery(), !now.Before(x.until):
			delete(s, id)
		case now.Before(x.at):
		default:
			if x.rounds++; x.rounds == leftRounds+1 || x.rounds >= leftRounds && x.rounds&(x.rounds-1) == 0 {
				due = append(due, x.token)
			}
		}
	}
	return due
}
