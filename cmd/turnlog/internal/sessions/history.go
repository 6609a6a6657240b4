package sessions

import (
	"context"
	"fmt"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
)

// callsOf reads a session that was not deleted, to find its calls.
func callsOf(ctx context.Context, c *client.Client, id content.SessionID) (report.Calls, error) {
	state, head, err := report.Read(ctx, c, id)
	return report.Calls{From: c, State: state, Head: head}, app.NoSession(id, err)
}

// find returns the call to which a printed ID belongs.
func find(ctx context.Context, c *client.Client, id content.SessionID, call content.CallID) (*report.Call, error) {
	calls, err := callsOf(ctx, c, id)
	if err != nil {
		return nil, err
	}
	found, err := calls.Find(ctx, call)
	if err == nil && found == nil {
		err = fmt.Errorf("session %[1]s has no call %[2]s: \"turnlog calls %[1]s\" lists the open ones", id, call)
	}
	return found, err
}

// deadLetter returns a call that lost workers, or says why there is none.
func deadLetter(ctx context.Context, c *client.Client, id content.SessionID, call content.CallID) (*report.Call, error) {
	p, err := find(ctx, c, id, call)
	if err == nil && len(p.Lost) == 0 {
		err = fmt.Errorf("%s (call %s) is not a dead letter: none of its workers was lost", p.Tool, p.Call)
	}
	return p, err
}

// notPending says why a call has no pending approval.
func notPending(ctx context.Context, c *client.Client, id content.SessionID, call content.CallID) error {
	p, err := find(ctx, c, id, call)
	switch {
	case err != nil:
		return err
	case p.Decision() != "":
		return fmt.Errorf("%s (call %s) is already decided: %s", p.Tool, p.Call, p.Decision())
	default:
		return fmt.Errorf("%s (call %s) needs no approval", p.Tool, p.Call)
	}
}
