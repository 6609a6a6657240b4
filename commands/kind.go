package commands

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/wire"
)

// kind is what all commands of a type have in common.
type kind struct {
	name  string // on the wire
	lane  events.Lane
	isAsk bool
}

func ask(name string, l events.Lane) kind { return kind{name: name, lane: l, isAsk: true} }

func report(name string, l events.Lane) kind { return kind{name: name, lane: l} }

// NameOf returns the name of the command on the wire.
func NameOf(c Command) string { return c.command().name }

// IsAsk reports whether c is an ask, which may be refused.
func IsAsk(c Command) bool { return c.command().isAsk }

// LaneOf returns the lane of c. Each lane is a permission: asks of clients, decisions
// of approvers, reports of workers. Commands of the host itself have no lane.
func LaneOf(c Command) events.Lane { return c.command().lane }

// Named returns the zero command with the name on the wire, or nil if there is none.
func Named(name string) Command {
	for _, zero := range []Command{
		Claim{},
		OpenSession{},
		SubmitInput{},
		Continue{},
		ResolveApproval{},
		AllowTools{},
		SettleDeadLetter{},
		Cancel{},
		DetachCall{},
		SetNextTurnCache{},
		SwitchModel{},
		StartTask{},
		Close{},
		Park{},
		ReportReply{},
		ReportModelFailed{},
		ReportModelStopped{},
		ReportResult{},
		ReportAttemptLost{},
		ReportOvertaken{},
		ReportPreflight{},
		ReportQuestion{},
		ReportHooks{},
		ReportMutation{},
		ReportRecall{},
		ReportVerify{},
		ReportMemory{},
		ReportTimer{},
	} {
		if NameOf(zero) == name {
			return zero
		}
	}
	return nil
}

// decodeCommand decodes a command of the kind of zero.
func decodeCommand(zero Command, r *wire.Reader) (Command, error) {
	if zero == nil {
		return nil, errors.New("unknown command")
	}
	c, err := r.Of(reflect.TypeOf(zero))
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return c.(Command), nil //nolint:forcetypeassert // the type of zero
}
