package commands

import "fmt"

// Rejection is returned for an ask that a session or its host refuses. Nothing was decided;
// the reason is a stable code that clients may branch on.
type Rejection struct {
	Reason string
	Detail string
}

// Refuse returns a *Rejection.
func Refuse(reason, format string, args ...any) error {
	return &Rejection{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// Error returns the reason and the detail.
func (r *Rejection) Error() string {
	if r.Detail == "" {
		return r.Reason
	}
	return r.Reason + ": " + r.Detail
}

// Reasons of rejections.
const (
	ReasonSessionExists     = "session_exists"
	ReasonNoSession         = "no_session"
	ReasonEmptyInput        = "empty_input"
	ReasonBadItem           = "bad_item"
	ReasonTooLarge          = "too_large"
	ReasonBusy              = "busy"
	ReasonQueueFull         = "queue_full"
	ReasonClosed            = "closed"
	ReasonDeleted           = "deleted"
	ReasonNoApproval        = "no_approval"
	ReasonSeveralPending    = "several_pending"
	ReasonUnknownCall       = "unknown_call"
	ReasonAlreadyDecided    = "already_decided"
	ReasonChanged           = "changed" // the question differs from the one that the sender of a decision saw
	ReasonExpired           = "expired"
	ReasonInvalidInput      = "invalid_input"
	ReasonNothingToCancel   = "nothing_to_cancel"
	ReasonAlreadyFinished   = "already_finished"
	ReasonNotRunning        = "not_running"
	ReasonAlreadyBackground = "already_background"
	ReasonInvalidCache      = "invalid_cache"
	ReasonNotDead           = "not_dead"   // the call is not a dead letter
	ReasonMayRepeat         = "may_repeat" // a retry may repeat the call's side effects
	ReasonBadTranscript     = "bad_transcript"
	ReasonHookTerminated    = "hook_terminated"
	ReasonUnknownAgent      = "unknown_agent" // the host has no agent of that name
	ReasonBadAgent          = "bad_agent"     // the agent's definition cannot be used
	ReasonForged            = "forged"        // its signature is wrong, or missing although it is required
	ReasonPolicy            = "policy"        // the deployment's policy does not permit it
)
