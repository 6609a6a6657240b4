package commands

import (
	"errors"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/events"
)

// NameOf returns the name of the command on the wire.
func NameOf(c Command) string { return c.command() }

// IsAsk reports whether c is an ask, which may be refused.
func IsAsk(c Command) bool {
	switch c.(type) {
	case Claim, OpenSession, SubmitInput, Continue, ResolveApproval, AllowTools, SettleDeadLetter, Cancel, DetachCall,
		SetNextTurnCache, StartTask, Close, Park:
		return true
	case ReportReply, ReportModelFailed, ReportModelStopped, ReportResult, ReportAttemptLost, ReportOvertaken,
		ReportPreflight, ReportGate, ReportHooks, ReportMutation, ReportRecall, ReportVerify, ReportMemory, ReportTimer:
		return false
	}
	return false
}

// LaneOf returns the lane of c. Each lane is a permission: asks of clients, decisions
// of approvers, reports of workers. Commands of the host itself have no lane.
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
