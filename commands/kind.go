package commands

import (
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/events"
)

// NameOf returns the command's name on the wire.
func NameOf(c Command) string {
	switch c.(type) {
	case Claim:
		return "claim"
	case OpenSession:
		return "open_session"
	case SubmitInput:
		return "submit_input"
	case Continue:
		return "continue"
	case ResolveApproval:
		return "resolve_approval"
	case AllowTools:
		return "allow_tools"
	case SettleDeadLetter:
		return "settle_dead_letter"
	case Cancel:
		return "cancel"
	case DetachCall:
		return "detach_call"
	case SetNextTurnCache:
		return "set_next_turn_cache"
	case StartTask:
		return "start_task"
	case Close:
		return "close"
	case Park:
		return "park"
	case ReportReply:
		return "report_reply"
	case ReportModelFailed:
		return "report_model_failed"
	case ReportModelStopped:
		return "report_model_stopped"
	case ReportResult:
		return "report_result"
	case ReportAttemptLost:
		return "report_attempt_lost"
	case ReportOvertaken:
		return "report_overtaken"
	case ReportPreflight:
		return "report_preflight"
	case ReportGate:
		return "report_gate"
	case ReportHooks:
		return "report_hooks"
	case ReportMutation:
		return "report_mutation"
	case ReportRecall:
		return "report_recall"
	case ReportVerify:
		return "report_verify"
	case ReportMemory:
		return "report_memory"
	case ReportTimer:
		return "report_timer"
	}
	panic(fmt.Sprintf("commands: %T is not a command of this package", c))
}

// IsAsk reports whether c may be refused.
func IsAsk(c Command) bool {
	switch c.(type) {
	case Claim, OpenSession, SubmitInput, Continue, ResolveApproval, AllowTools, SettleDeadLetter, Cancel, DetachCall, SetNextTurnCache, StartTask, Close, Park:
		return true
	case ReportReply, ReportModelFailed, ReportModelStopped, ReportResult, ReportAttemptLost, ReportOvertaken, ReportPreflight, ReportGate, ReportHooks, ReportMutation, ReportRecall, ReportVerify, ReportMemory, ReportTimer:
		return false
	}
	return false
}

// LaneOf returns the lane that c travels on, one permission each: asks of
// clients, decisions of approvers, reports of workers. What a host tells itself
// has no lane.
func LaneOf(c Command) events.Lane {
	switch c.(type) {
	case OpenSession, SubmitInput, Continue, Cancel, DetachCall, SetNextTurnCache, StartTask, Close:
		return events.LaneAsk
	case ResolveApproval, AllowTools, SettleDeadLetter:
		return events.LaneDecide
	case ReportResult, ReportAttemptLost, ReportOvertaken, ReportGate:
		return events.LaneReport
	case ReportTimer:
		return events.LaneDue
	case Claim, Park, ReportReply, ReportModelFailed, ReportModelStopped, ReportPreflight, ReportHooks,
		ReportMutation, ReportRecall, ReportVerify, ReportMemory:
		return events.LaneLocal
	}
	return events.LaneLocal
}

var errUnknownName = errors.New("unknown command")

func decodeCommand(name string, dec *msgpack.Decoder) (Command, error) {
	switch name {
	case "claim":
		return decodeAs[Claim](dec)
	case "open_session":
		return decodeAs[OpenSession](dec)
	case "submit_input":
		return decodeAs[SubmitInput](dec)
	case "continue":
		return decodeAs[Continue](dec)
	case "resolve_approval":
		return decodeAs[ResolveApproval](dec)
	case "allow_tools":
		return decodeAs[AllowTools](dec)
	case "settle_dead_letter":
		return decodeAs[SettleDeadLetter](dec)
	case "cancel":
		return decodeAs[Cancel](dec)
	case "detach_call":
		return decodeAs[DetachCall](dec)
	case "set_next_turn_cache":
		return decodeAs[SetNextTurnCache](dec)
	case "start_task":
		return decodeAs[StartTask](dec)
	case "close":
		return decodeAs[Close](dec)
	case "park":
		return decodeAs[Park](dec)
	case "report_reply":
		return decodeAs[ReportReply](dec)
	case "report_model_failed":
		return decodeAs[ReportModelFailed](dec)
	case "report_model_stopped":
		return decodeAs[ReportModelStopped](dec)
	case "report_result":
		return decodeAs[ReportResult](dec)
	case "report_attempt_lost":
		return decodeAs[ReportAttemptLost](dec)
	case "report_overtaken":
		return decodeAs[ReportOvertaken](dec)
	case "report_preflight":
		return decodeAs[ReportPreflight](dec)
	case "report_gate":
		return decodeAs[ReportGate](dec)
	case "report_hooks":
		return decodeAs[ReportHooks](dec)
	case "report_mutation":
		return decodeAs[ReportMutation](dec)
	case "report_recall":
		return decodeAs[ReportRecall](dec)
	case "report_verify":
		return decodeAs[ReportVerify](dec)
	case "report_memory":
		return decodeAs[ReportMemory](dec)
	case "report_timer":
		return decodeAs[ReportTimer](dec)
	}
	return nil, errUnknownName
}
