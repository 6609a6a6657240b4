package sessions

import (
	"context"
	"fmt"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
)

// readHistory reads the journal of a session that was not deleted.
func readHistory(ctx context.Context, c *client.Client, id content.SessionID) (*report.History, error) {
	h, err := report.ReadHistory(ctx, c, id)
	return h, app.NoSession(id, err)
}

// find returns the call with an ID that some command prints.
func find(h *report.History, id content.CallID) (*report.Call, error) {
	if c := h.Find(id); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("session %[1]s has no call %[2]s: \"turnlog calls %[1]s\" lists the open ones", h.State.Session, id)
}

// deadLetter returns a call that lost workers, or says why there is none.
func deadLetter(h *report.History, id content.CallID) (*report.Call, error) {
	c, err := find(h, id)
	if err == nil && len(c.Lost) == 0 {
		err = fmt.Errorf("%s (call %s) is not a dead letter: none of its workers was lost", c.Tool, c.Call)
	}
	return c, err
}

// notPending says why a call has no pending approval.
func notPending(ctx context.Context, c *client.Client, id content.SessionID, call content.CallID) error {
	h, err := readHistory(ctx, c, id)
	if err != nil {
		return err
	}
	p, err := find(h, call)
	switch {
	case err != nil:
		return err
	case p.Decision() != "":
		return fmt.Errorf("%s (call %s) is already decided: %s", p.Tool, p.Call, p.Decision())
	default:
		return fmt.Errorf("%s (call %s) needs no approval", p.Tool, p.Call)
	}
}
