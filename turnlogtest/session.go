package turnlogtest

import (
	"context"
	"encoding/json"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/session"
)

// Limits on how long a session may take for one step. In a bubble, calls may take days.
const (
	patience        = time.Minute
	virtualPatience = 30 * 24 * time.Hour
)

// Session is a session that a test talks to. Its methods without a context parameter fail the test if
// something goes wrong.
type Session struct {
	*session.Session

	d     *Deployment
	turn  *session.Turn            // the turn that the last input opened or joined; nil: none
	asks  *session.ApprovalRequest // what the turn waits for; nil: nothing
	reply string                   // the reply of the last turn that ended
}

// Say sends a text and returns the reply when its turn has ended. It returns "" when the turn needs an
// approval: continue with [Session.Approve] or [Session.Deny].
func (s *Session) Say(text string) string {
	s.d.T.Helper()
	ctx, stop := s.withTimeout()
	defer stop()
	turn, err := s.Submit(ctx, session.Input{Items: []content.Item{content.UserText(text)}})
	if err != nil {
		s.d.T.Fatalf("say %q: %v", text, err)
	}
	s.turn = turn
	return s.step(ctx)
}

// Approve approves what the turn waits for, which must be a call of the tool. It returns the same as Say.
func (s *Session) Approve(tool string) string {
	s.d.T.Helper()
	return s.decide(tool, session.Decision{Approve: true})
}

// ApproveWith approves a call with other arguments.
func (s *Session) ApproveWith(tool, input string) string {
	s.d.T.Helper()
	return s.decide(tool, session.Decision{Approve: true, Input: json.RawMessage(input)})
}

// Deny denies what the turn waits for, with a reason that the model sees.
func (s *Session) Deny(tool, reason string) string {
	s.d.T.Helper()
	return s.decide(tool, session.Decision{Reason: reason})
}

func (s *Session) decide(tool string, v session.Decision) string {
	s.d.T.Helper()
	s.ExpectApproval(tool)
	ctx, stop := s.withTimeout()
	defer stop()
	v.Call, v.By = s.asks.CallID, "tester"
	if err := s.ResolveApproval(ctx, v); err != nil {
		s.d.T.Fatalf("decide %s: %v", tool, err)
	}
	return s.step(ctx)
}

// step follows the turn to its end or to its next question.
func (s *Session) step(ctx context.Context) string {
	s.d.T.Helper()
	s.asks = nil
	for {
		st, err := s.turn.Next(ctx)
		if err != nil {
			s.d.T.Fatalf("the turn of session %s: %v", s.ID(), err)
		}
		switch st := st.(type) { //nolint:gochecksumtype // the others are intermediate steps
		case *session.ApprovalRequest:
			s.asks = st
			return ""
		case *session.Finished:
			s.reply = st.Result.Text()
			return s.reply
		}
	}
}

func (s *Session) withTimeout() (context.Context, context.CancelFunc) {
	limit := patience
	if s.d.bubble {
		limit = virtualPatience
	}
	return context.WithTimeout(s.d.Ctx, limit)
}
