// Package replay runs a journal again with its recorded results. It shows what would have happened with another model,
// prompt or set of tools.
//
// Everything that came from outside is recorded: replies, results, decisions of people and hooks, cancels, compactions and
// verdicts. So the core can decide every command again. Nothing runs for that, and the same events follow, unless this
// release of the core decides differently. Another model is called instead of using each recorded reply. From its first
// different reply on, the session continues in this process. Its calls get the recorded results and decisions of the same
// calls (the same tool and canonical arguments), and each turn gets the recorded input.
//
// A replay is a session in memory. It needs nothing from the journal's deployment and changes nothing there.
package replay

import (
	"context"
	"errors"
	"slices"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/audit/compare"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// ErrNoSession is returned for an entry before the session opened or after it ended. Name another entry.
var ErrNoSession = errors.New("the session does not exist yet")

// Config says what a replay changes. The zero Config changes nothing.
type Config struct {
	Model  model.Model   // nil: the recorded replies
	System string        // the system prompt, which Model gets; "": the recorded one
	Tools  []tool.Source // describe the tools to the model, and run calls that are not recorded if Live
	From   uint64        // the entry after which the model is asked; 0: from the beginning
	Stop   bool          // end after the first turn that differs; false: continue with the journal's next input

	// Live runs calls that are not recorded, which otherwise fail. Calls that do more than read need an approval.
	Live     bool
	Approver extension.Approver // decides about live calls; nil: they are denied
}

// Result is the outcome of a replay.
type Result struct {
	Diff     *compare.Diff    `json:"diff"`     // between the journal and the replay
	Records  []journal.Record `json:"-"`        // the replay's journal
	Recorded int64            `json:"recorded"` // calls that got their recorded result
	Live     int64            `json:"live"`     // calls that ran
	Missing  int64            `json:"missing"`  // calls that failed because they are not recorded

	// Otherwise lists the entries that an earlier release wrote and this one decides differently, although the same happened.
	Otherwise []uint64 `json:"otherwise,omitempty"`
	// Unrepeated names what the journal has after the first different reply and a replay cannot repeat, such as cancels.
	Unrepeated []string `json:"unrepeated,omitempty"`
}

// errUndecided ends a replay at a decision that the journal does not have.
var errUndecided = errors.New("the journal ends before a decision")

// ErrNoModel is returned for another prompt without a model: recorded replies do not depend on it.
var ErrNoModel = errors.New("another prompt needs a model, since recorded replies do not depend on the prompt")

// id is the ID of a replay's session.
const id content.SessionID = "replay"

// Run replays the journal of a session. It returns an error if the journal cannot be replayed, not if the replay differs.
func Run(ctx context.Context, records []journal.Record, cfg Config) (*Result, error) {
	if cfg.System != "" && cfg.Model == nil {
		return nil, ErrNoModel
	}
	r := &replay{cfg: cfg, records: records, tape: newTape(cfg), journal: journal.NewMemory()}
	if err := r.repeat(ctx); err != nil {
		return nil, err
	}
	if r.differs == len(records) || r.state.Task != nil { // a recorded verdict says nothing about other work
		return r.result(ctx, 0)
	}
	s, err := r.start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close(context.WithoutCancel(ctx)) }() // the session is in memory
	for _, t := range r.turns {
		err := r.turn(ctx, s, t)
		if errors.Is(err, errUndecided) {
			break
		}
		if err != nil {
			return nil, err
		}
		if !cfg.Stop {
			continue
		}
		if out, err := r.result(ctx, t.ends); err != nil || !out.Diff.Same {
			return out, err
		}
	}
	return r.result(ctx, 0)
}

// replay is one run.
type replay struct {
	cfg     Config
	records []journal.Record
	tape    *tape
	journal *journal.Memory // the replay's journal
	state   *loop.State     // the replay's state, up to the first different reply
	head    journal.Head    // likewise
	differs int             // index of the record that a different reply replaced; len(records): none
	turns   []turn          // turns of the journal from there on

	recorded   int64
	otherwise  []uint64
	unrepeated []string
}

// turn is a turn of the journal.
type turn struct {
	inputs []input
	open   bool   // it is open when the replay reaches it, or opens without a record
	ends   uint64 // the entry that ends it; 0: it does not end
}

// input is what a turn accepted.
type input struct {
	items []content.Item
	after int // the round of the turn after which the replay submits it
}

// all yields the records of the journal.
func (r *replay) all(yield func(journal.Record, error) bool) {
	for _, rec := range r.records {
		if !yield(rec, rec.Err) {
			return
		}
	}
}

// follow reads what happened after the first different reply: the turns, their inputs, and what a replay cannot repeat.
func (r *replay) follow() {
	open, rounds, queued := true, 0, 0
	for _, q := range r.state.Queue { // the replay has it as well
		queued += len(q.Items)
	}
	r.turns = []turn{{open: true}}
	for _, rec := range r.records[r.differs:] {
		for _, ev := range rec.Entry.Events {
			if what := unrepeated(ev); what != "" && !slices.Contains(r.unrepeated, what) {
				r.unrepeated = append(r.unrepeated, what)
			}
			switch ev := ev.(type) { //nolint:gochecksumtype // the others follow from these
			case events.TaskStarted:
				return
			case events.InputAccepted:
				if !open {
					r.turns = append(r.turns, turn{open: true})
					open, rounds = true, 0
				}
				if ev.Origin != events.FromHost && ev.Origin != events.FromParent {
					continue // it follows from what happens
				}
				n := min(queued, len(ev.Items))
				queued -= n
				if items := content.Stripped(ev.Items[n:]); len(items) > 0 {
					t := &r.turns[len(r.turns)-1]
					t.inputs = append(t.inputs, input{items: items, after: rounds})
				}
			case events.RoundFinished:
				rounds++
			case events.TurnFinished:
				open = false
				r.turns[len(r.turns)-1].ends = rec.Seq
			}
		}
	}
}

// unrepeated describes an event that a replay cannot repeat after a different reply, or returns "".
func unrepeated(ev events.Event) string {
	switch ev := ev.(type) { //nolint:gochecksumtype // the others are repeated, or follow
	case events.CancelRequested:
		return "cancels"
	case events.MutationFinished:
		if ev.Dirty {
			return "changes of the transcript, such as compaction"
		}
		if ev.Error != "" {
			return "failures of mutators"
		}
	case events.HookDecided:
		if ev.Action != extension.Continue.String() {
			return "decisions of hooks"
		}
	case events.ToolDetached:
		return "calls in the background"
	case events.ApprovalResolved:
		if ev.Outcome == events.Expired {
			return "approvals that expire"
		}
	case events.TaskStarted, events.VerifyStarted:
		return "tasks"
	}
	return ""
}

// start starts the session that continues after the different reply.
func (r *replay) start(ctx context.Context) (*session.Session, error) {
	c := r.state.Config
	a, err := agent.New(agent.Config{
		Model: r.cfg.Model, Tools: r.sources(), Offered: c.Tools, Policy: permission.AllowAll(), Permissions: r.tape,
		Durable: r.tape, Approver: r.cfg.Approver, Journal: r.journal, OnToolError: onError(c), Output: c.Output, Cache: c.Cache,
		Limits: c.Limits, SessionLimits: c.SessionLimits,
	})
	if err != nil {
		return nil, err
	}
	return a.Start(ctx, agent.SessionConfig{ID: id})
}

// sources describe the tools to the model.
func (r *replay) sources() []tool.Source { return append(slices.Clip(r.cfg.Tools), r.tape.source()) }

func onError(c events.Config) agent.ToolErrorPolicy {
	if c.FailRun {
		return agent.FailRun
	}
	return agent.ReportToModel
}

// turn replays one turn: its inputs in the rounds in which it accepted them, and its decisions. Input for rounds that the
// replay does not reach goes to the next turn.
func (r *replay) turn(ctx context.Context, s *session.Session, t turn) error {
	rounds := 0
	var running *session.Turn
	if s.OpenTurn() != "" || t.open && len(t.inputs) == 0 {
		running = s.Open()
	}
	for {
		for len(t.inputs) > 0 && (t.inputs[0].after <= rounds || running == nil) {
			in, err := s.Submit(ctx, session.Input{Items: t.inputs[0].items})
			if err != nil {
				return err
			}
			if t.inputs = t.inputs[1:]; running == nil {
				running = in
			} else {
				in.Close()
			}
		}
		if running == nil {
			return nil
		}
		step, err := running.Next(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch st := step.(type) { //nolint:gochecksumtype // the others are steps on the way
		case *session.ApprovalRequest:
			if err := r.decide(ctx, s, st.Approval); err != nil {
				return err
			}
		case *session.AfterToolResult:
			rounds++
		case *session.Finished:
			running = nil
		case nil:
			if err != nil && s.OpenTurn() != "" {
				return err
			}
			running = nil // the turn ended with the error, which the comparison shows
		}
	}
}

// decide repeats the recorded decision, or asks about a live call.
func (r *replay) decide(ctx context.Context, s *session.Session, a events.Approval) error {
	switch d, recorded, err := r.tape.decision(a); {
	case err != nil:
		return err
	case recorded:
		return s.ResolveApproval(ctx, d)
	}
	d := session.Decision{Call: a.CallID, Reason: "this replay has no approver for live calls"}
	if r.cfg.Approver != nil {
		var err error
		if d.Approve, d.Reason, err = r.cfg.Approver.Approve(ctx, a); err != nil {
			return err
		}
	}
	return s.ResolveApproval(ctx, d)
}

// result compares the journal, up to an entry or to its end, with the replay so far.
func (r *replay) result(ctx context.Context, to uint64) (*Result, error) {
	var was, is compare.Reader
	for _, rec := range r.records {
		if to == 0 || rec.Seq <= to {
			was.Add(rec)
		}
	}
	out := &Result{
		Recorded: r.recorded + r.tape.recorded.Load(), Live: r.tape.ran.Load(), Missing: r.tape.missing.Load(),
		Otherwise: r.otherwise, Unrepeated: r.unrepeated,
	}
	for rec, err := range r.journal.Read(ctx, id, 0) {
		if err != nil {
			return nil, err
		}
		out.Records = append(out.Records, rec)
		is.Add(rec)
	}
	out.Diff = compare.Between(&was, &is)
	return out, nil
}
