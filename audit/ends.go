package audit

import (
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

func endsHaveCauses() rule {
	var c causes
	return func(f *fact) {
		switch ev := f.event.(type) {
		case events.TurnStarted:
			c = causes{}
		case events.CancelRequested:
			if ev.Scope == "call" {
				c.call(ev.Target, content.StatusCancelled)
			} else {
				c.cancel = true
			}
		case events.LimitReached:
			c.limit = true
		case events.HookDecided:
			switch ev.Action {
			case "terminate":
				c.terminate = true
			case "skip":
				c.call(ev.Call, content.StatusSkipped)
			}
		case events.ApprovalResolved:
			if ev.Outcome == events.Expired {
				c.call(ev.Call, content.StatusExpired)
			}
		case events.ReplyRecorded:
			if ev.Interrupted && !c.cancel {
				f.fail("a reply was interrupted, but no cancel is recorded")
			}
		case events.ToolResultReceived:
			// A result with an attempt comes from a worker, which decides its status.
			if ev.Attempt == 0 && !ev.Late && !f.ledger.resumed && !c.explain(ev.Result) {
				f.fail("call %s is answered as %s, but nothing recorded explains that", ev.Result.CallID, ev.Result.Status)
			}
		case events.TurnFinished:
			if !c.finish(f, ev.FinishReason) {
				f.fail("%s finishes as %s after a reply that ended as %q, and nothing recorded explains that", ev.Turn, ev.FinishReason, f.ledger.finish)
			}
		}
	}
}

// causes are the recorded causes that can end the open turn or a call.
type causes struct {
	cancel, limit, terminate bool
	calls                    map[content.CallID]content.Status
}

func (c *causes) call(id content.CallID, s content.Status) {
	if c.calls == nil {
		c.calls = map[content.CallID]content.Status{}
	}
	c.calls[id] = s
}

// explain reports whether something recorded explains a result that no worker sent.
func (c *causes) explain(r content.ToolResult) bool {
	switch r.Status {
	case content.StatusCancelled:
		return c.cancel || c.calls[r.CallID] == content.StatusCancelled
	case content.StatusLimit:
		return c.limit
	case content.StatusTerminated:
		return c.terminate
	case content.StatusSkipped, content.StatusExpired:
		return c.calls[r.CallID] == r.Status
	default:
		return true
	}
}

// finish reports whether a turn may end for that reason.
func (c *causes) finish(f *fact, reason content.FinishReason) bool {
	switch reason {
	case content.Cancelled:
		return c.cancel || f.ledger.finish == reason
	case content.Limit:
		return c.limit
	case content.Terminated:
		return c.terminate
	case content.Errored:
		return true // see turn-brackets
	case content.Completed:
		switch f.ledger.finish {
		case "", content.Completed:
			return true // without a reply there was nothing to answer
		case content.ToolCalls:
			return len(f.ledger.open) == 0
		default:
			return false
		}
	default:
		return f.ledger.finish == reason
	}
}

// hooksOnce: only compactions may occur several times in a round.
func hooksOnce() rule {
	type point struct {
		name string
		call content.CallID
	}
	decided := map[point]bool{}
	return func(f *fact) {
		switch ev := f.event.(type) {
		case events.RoundStarted:
			clear(decided)
		case events.HookDecided:
			if ev.Turn == "" {
				return // at the session's start or end, once per host
			}
			p := point{ev.Point, ev.Call}
			if decided[p] && ev.Point != "context_compaction" {
				f.fail("the hooks of %s run twice in round %d (call %q)", ev.Point, ev.Round, ev.Call)
			}
			decided[p] = true
		}
	}
}
