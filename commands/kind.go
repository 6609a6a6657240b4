package commands

import (
	"errors"
	"fmt"

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
		ReportPreflight, ReportQuestion, ReportHooks, ReportMutation, ReportRecall, ReportVerify, ReportMemory, ReportTimer:
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
	case ReportResult, ReportAttemptLost, ReportOvertaken, ReportQuestion:
		return events.LaneReport
	case ReportTimer:
		return events.LaneDue
	case Claim, Park, ReportReply, ReportModelFailed, ReportModelStopped, ReportPreflight, ReportHooks,
		ReportMutation, ReportRecall, ReportVerify, ReportMemory:
		return events.LaneLocal
	}
	return events.LaneLocal
}

// decodeCommand decodes the command with the name on the wire.
func decodeCommand(name string, dec *msgpack.Decoder) (Command, error) {
	for _, decode := range []func(string, *msgpack.Decoder) (Command, error){
		decodeIf[Claim], decodeIf[OpenSession], decodeIf[SubmitInput], decodeIf[Continue], decodeIf[ResolveApproval],
		decodeIf[AllowTools], decodeIf[SettleDeadLetter], decodeIf[Cancel], decodeIf[DetachCall],
		decodeIf[SetNextTurnCache], decodeIf[StartTask], decodeIf[Close], decodeIf[Park],
		decodeIf[ReportReply], decodeIf[ReportModelFailed], decodeIf[ReportModelStopped], decodeIf[ReportResult],
		decodeIf[ReportAttemptLost], decodeIf[ReportOvertaken], decodeIf[ReportPreflight], decodeIf[ReportQuestion],
		decodeIf[ReportHooks], decodeIf[ReportMutation], decodeIf[ReportRecall], decodeIf[ReportVerify],
		decodeIf[ReportMemory], decodeIf[ReportTimer],
	} {
		if c, err := decode(name, dec); c != nil || err != nil {
			return c, err
		}
	}
	return nil, errors.New("unknown command")
}

// decodeIf decodes a T. It returns nil if name is not the name of T.
func decodeIf[T Command](name string, dec *msgpack.Decoder) (Command, error) {
	var v T
	if v.command() != name {
		return nil, nil //nolint:nilnil // not this one
	}
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("decode %T: %w", v, err)
	}
	return v, nil
}
