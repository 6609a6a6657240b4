package client

import (
	"context"
	"encoding/json"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
)

// ApproveWithInput approves a call's oldest undecided approval with other arguments.
// The transcript keeps the model's; arguments that do not fit the tool's schema are
// refused, and the approval stays open.
func (s *Session) ApproveWithInput(ctx context.Context, call content.CallID, input json.RawMessage, by string) error {
	if by == "" {
		by = s.client.name
	}
	return s.Ask(ctx, commands.ResolveApproval{Call: call, Approve: true, Input: input, By: by})
}

// CancelCall ends one call, which may run in the background; the turn goes on. The
// empty reason is user_cancelled.
func (s *Session) CancelCall(ctx context.Context, call content.CallID, reason string) error {
	return s.Ask(ctx, commands.Cancel{Scope: commands.ScopeCall, Call: call, Reason: reason})
}

// DetachCall sends a running call to the background: the turn goes on without its
// result, which comes later as a notification.
func (s *Session) DetachCall(ctx context.Context, call content.CallID) error {
	return s.Ask(ctx, commands.DetachCall{Call: call})
}
