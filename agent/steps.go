package agent

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/tool"
)

// Steps runs one turn a step at a time: every call of Next carries it on to the end
// of a round of tools, and to its result. Between the calls the host may look at the
// messages, add some, and change the tools. It belongs to one goroutine.
type Steps struct {
	d      *Driver
	resume bool           // nothing was handed in: go on with what is open
	unsent []content.Item // not yet submitted
	begun  bool
	ahead  []StepResult // what Next has yet to return
	done   bool
}

// StepResult is what Steps.Next returns. It is sealed: ToolsExecuted,
// CompactionOccurred and the three that end the turn, FinalResponse, MaxTurnsReached
// and StepError.
//
//sumtype:decl
type StepResult interface{ stepResult() }

// ToolsExecuted says that a round of tools is complete.
type ToolsExecuted struct {
	Calls   []content.ToolCall
	Results []content.ToolResult // in call order
}

// FinalResponse is the turn's result.
type FinalResponse struct{ Result *RunResult }

// CompactionOccurred says that the transcript was compacted before the round that
// the following result is about. Both numbers are zero if the provider did it.
type CompactionOccurred struct{ OldTokens, NewTokens int64 }

// MaxTurnsReached says that the limit on rounds ended the turn.
type MaxTurnsReached struct {
	Max    int
	Result *RunResult // what there is
}

// StepError says that the turn ended otherwise, with the error that Run returns.
type StepError struct{ Err error }

func (ToolsExecuted) stepResult()      {}
func (FinalResponse) stepResult()      {}
func (CompactionOccurred) stepResult() {}
func (MaxTurnsReached) stepResult()    {}
func (StepError) stepResult()          {}

// Steps prepares a turn with the items, which are submitted by the first Next.
// Without items it goes on with what is open.
func (d *Driver) Steps(_ context.Context, items ...content.Item) *Steps {
	return &Steps{d: d, resume: len(items) == 0, unsent: slices.Clone(items)}
}

// Next carries the turn on to its next result. It returns false after the result that
// ended the turn. The end of ctx cancels the turn.
func (s *Steps) Next(ctx context.Context) (StepResult, bool) {
	if len(s.ahead) == 0 && !s.done {
		s.advance(ctx)
	}
	if len(s.ahead) == 0 {
		return nil, false
	}
	next := s.ahead[0]
	s.ahead = s.ahead[1:]
	return next, true
}

func (s *Steps) advance(ctx context.Context) {
	if err := s.submit(ctx); err != nil {
		s.end(StepError{err})
		return
	}
	var compactions compactions
	s.d.setTap(compactions.look)
	res, err := s.d.toStep(ctx, s.resume)
	s.d.setTap(nil)
	s.ahead = compactions.taken()
	if err != nil {
		s.end(StepError{err})
		return
	}
	switch res := res.(type) {
	case *AfterToolResult:
		s.ahead = append(s.ahead, ToolsExecuted{Calls: res.Calls, Results: res.Results})
	case *Finished:
		s.end(s.d.concluded(res))
	case *ApprovalRequest, *AwaitingInput: // toStep stops at neither
	}
}

// concluded is the result of a turn that is over.
func (d *Driver) concluded(fin *Finished) StepResult {
	res, err := d.conclude(fin.Result)
	if e, ok := errors.AsType[*MaxTurnsError](err); ok {
		return MaxTurnsReached{Max: e.Max, Result: res}
	}
	if err != nil {
		return StepError{err}
	}
	return FinalResponse{res}
}

func (s *Steps) end(last StepResult) {
	s.ahead = append(s.ahead, last)
	s.done = true
}

// submit hands in what is new. A context that is over submits nothing.
func (s *Steps) submit(ctx context.Context) error {
	if !s.begun && ctx.Err() != nil {
		return &CancelledError{Reason: contextReason(ctx)}
	}
	s.begun = true
	if len(s.unsent) == 0 {
		return nil
	}
	if err := s.d.Send(ctx, Steer, s.unsent...); err != nil {
		return err
	}
	s.unsent, s.resume = nil, false
	return nil
}

// Messages returns the transcript as it will be: with what waits to be merged and
// what was injected.
func (s *Steps) Messages() []content.Item {
	return slices.Concat(s.d.messages(), s.unsent)
}

// InjectMessage adds items before the next model call, or to the beginning of the
// turn.
func (s *Steps) InjectMessage(items ...content.Item) { s.unsent = append(s.unsent, items...) }

// ToolsMut returns the tools of this session alone, which the next model call sees
// beside those of the agent. They are gone when the session is started again.
func (s *Steps) ToolsMut() *tool.Registry { return s.d.sessionTools() }

// compactions collects those of one step.
type compactions struct {
	mu   sync.Mutex
	seen []StepResult
}

func (c *compactions) look(ev events.Event) {
	var found CompactionOccurred
	switch ev := any(ev).(type) {
	case events.MutationFinished:
		if !ev.Dirty || ev.Point != string(extension.BeforeModel) {
			return
		}
		found = CompactionOccurred{ev.OldTokens, ev.NewTokens}
	case events.ReplyRecorded:
		if ev.FinishReason != content.Compaction {
			return
		}
	default:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, found)
}

func (c *compactions) taken() []StepResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
}
