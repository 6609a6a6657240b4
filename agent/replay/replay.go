// Package replay runs a journal again, with the results that it records: what would have happened with another model,
// prompt or set of tools.
//
// The one idea: a call is the same if its tool and its canonical arguments are. It gets the recorded result and the recorded
// decisions, so nothing runs twice, and the session goes as it went until its model answers otherwise. Without another
// model the recorded replies answer, and an unchanged session and its replay do not differ.
//
// A replay is a session in memory. Nothing of the journal's deployment is needed or changed.
package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/audit/compare"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/record"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// Errors of Run.
var (
	// ErrTask is returned for a journal with a task, whose verifier is not recorded. Replay it up to there, or fork it.
	ErrTask = errors.New("a task cannot be replayed")

	// ErrNoSession is returned for an entry at which there is no session to replay, or none left. Name another entry.
	ErrNoSession = errors.New("there is no session to replay")
)

// Config says what is different about a replay. The zero Config changes nothing.
type Config struct {
	Model  model.Model   // nil: the recorded replies
	System string        // the system prompt; "": the recorded one
	Tools  []tool.Source // describe the tools to the model, and run calls that are not recorded if Live
	From   uint64        // the entry after which the replay begins; 0: all of the journal
	Stop   bool          // end after the first turn that differs; false: continue with the journal's next input

	// Live has calls run that are not recorded, which otherwise fail. Those that do more than read need an approval.
	Live     bool
	Approver extension.Approver // decides about live calls; nil: they are denied
}

// Result is what a replay came to.
type Result struct {
	Diff     *compare.Diff    `json:"diff"`     // of the journal and the replay
	Records  []journal.Record `json:"-"`        // of the replay
	Recorded int64            `json:"recorded"` // calls that got their recorded result
	Live     int64            `json:"live"`     // calls that ran
	Missing  int64            `json:"missing"`  // calls that failed because they are not recorded

	// Unrepeated names what the journal has and no replay repeats, such as cancels: from there on, it differs.
	Unrepeated []string `json:"unrepeated,omitempty"`
}

// errUndecided ends a replay where the journal waits for a decision.
var errUndecided = errors.New("the journal ends before a decision")

// ID is the session of a replay.
const ID content.SessionID = "replay"

// Run replays the journal of a session. It returns an error if the journal cannot be replayed, not if the replay differs.
func Run(ctx context.Context, records []journal.Record, cfg Config) (*Result, error) {
	r := &replay{cfg: cfg, records: records, tape: newTape(cfg), journal: journal.NewMemory()}
	if err := r.read(); err != nil {
		return nil, err
	}
	s, err := r.start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close(context.WithoutCancel(ctx)) }() // a session in memory
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
	if s.OpenTurn() != "" { // as in the journal, whose queued input nothing has accepted
		for _, in := range r.queued {
			if err := s.Send(ctx, session.Queue, in...); err != nil {
				return nil, err
			}
		}
	}
	return r.result(ctx, 0)
}

// replay is one run.
type replay struct {
	cfg     Config
	records []journal.Record
	origin  engine.Replica // as it was after cfg.From, or when it opened
	opened  int            // the index of the record after that
	waiting []content.Item // input that the origin is about to answer
	turns   []turn
	queued  [][]content.Item // input that the journal's end has not accepted
	tape    *tape
	journal *journal.Memory // of the replay

	unrepeated []string
}

// turn is a turn of the journal.
type turn struct {
	inputs []input
	open   bool   // a round of it goes on when the replay begins
	ends   uint64 // the entry; 0: it does not end
}

// input is what a turn accepted.
type input struct {
	items []content.Item
	after int // rounds of the turn that the replay has
}

// all yields the records of the journal.
func (r *replay) all(yield func(journal.Record, error) bool) {
	for _, rec := range r.records {
		if !yield(rec, rec.Err) {
			return
		}
	}
}

// read folds the journal up to where the replay begins, and collects what happened after that.
func (r *replay) read() (err error) {
	defer func() {
		if p := recover(); p != nil { // no host wrote it
			err = fmt.Errorf("the journal cannot be folded; \"observer verify\" says why: %v", p)
		}
	}()
	if len(r.records) == 0 {
		return ErrNoSession
	}
	id, from := r.records[0].Entry.Session, r.cfg.From
	for _, rec := range r.records {
		if from == 0 && slices.Contains(rec.Entry.Kinds(), events.KindRunStarted) {
			from = rec.Seq
		}
	}
	end, err := engine.FoldTo(id, r.all, math.MaxUint64)
	if err == nil {
		r.origin, err = engine.FoldTo(id, r.all, from)
	}
	switch {
	case err != nil:
		return err
	case !r.origin.State.Opened || r.origin.State.Deleted != nil || r.origin.Head.Seq < from:
		return fmt.Errorf("%w at entry %d", ErrNoSession, from)
	}
	for _, q := range end.State.Queue {
		r.queued = append(r.queued, q.Items)
	}
	if r.origin.State.Turn != nil {
		r.turns = []turn{{open: true}}
		if r.waiting = session.ForkInput(r.origin.State); len(r.waiting) > 0 {
			r.turns[0] = turn{inputs: []input{{items: r.waiting}}}
		}
	}
	return r.follow(from)
}

// follow reads the entries after one: all of them for the recorded calls, and the later ones for the turns.
func (r *replay) follow(from uint64) error {
	open, rounds := r.origin.State.Turn != nil, 0
	for i, rec := range r.records {
		if rec.Seq <= from {
			r.opened = i + 1
		}
		for _, ev := range rec.Entry.Events {
			r.tape.add(ev)
			if rec.Seq <= from {
				continue
			}
			if what := unrepeated(ev); what != "" && !slices.Contains(r.unrepeated, what) {
				r.unrepeated = append(r.unrepeated, what)
			}
			switch ev := ev.(type) { //nolint:gochecksumtype // the others follow from these
			case events.InputAccepted:
				switch {
				case ev.Origin == events.FromTask:
					return fmt.Errorf("entry %d: %w", rec.Seq, ErrTask)
				case ev.Origin != events.FromHost && ev.Origin != events.FromParent:
					continue // it follows from what happens
				case !open:
					r.turns = append(r.turns, turn{})
					rounds = 0
				}
				t := &r.turns[len(r.turns)-1]
				t.inputs = append(t.inputs, input{items: content.Stripped(ev.Items), after: rounds})
			case events.TurnStarted:
				open = true
			case events.RoundFinished:
				rounds++
			case events.TurnFinished:
				open = false
				if n := len(r.turns); n > 0 {
					r.turns[n-1].ends = rec.Seq
				}
			}
		}
	}
	return nil
}

// unrepeated says what an event is that no replay repeats, or "".
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
	}
	return ""
}

// start starts the replay's session.
func (r *replay) start(ctx context.Context) (*session.Session, error) {
	m := r.cfg.Model
	if m == nil {
		data, err := record.FromJournal(r.all, record.Config{})
		if err == nil {
			m, err = record.Parse("replay", data, record.Config{})
		}
		if err != nil {
			return nil, fmt.Errorf("the recorded replies: %w", err)
		}
	}
	snap := session.SnapshotOf(r.origin.State, events.Hash{})
	snap.Hash, snap.PendingInput, snap.Calls = r.origin.Head.Hash, nil, nil // a call that was running gets its recorded result
	snap.Transcript = snap.Transcript[:len(snap.Transcript)-len(r.waiting)]
	if r.cfg.System != "" {
		for len(snap.Transcript) > 0 && snap.Transcript[0].Kind == content.System {
			snap.Transcript = snap.Transcript[1:]
		}
		snap.Transcript = slices.Concat([]content.Item{content.SystemText(r.cfg.System)}, snap.Transcript)
	}
	c := r.origin.State.Config
	a, err := agent.New(agent.Config{
		Model: m, Tools: append(slices.Clip(r.cfg.Tools), r.tape.source()), Offered: c.Tools, Policy: permission.AllowAll(), Permissions: r.tape,
		Durable: r.tape, Approver: r.cfg.Approver, Journal: r.journal, OnToolError: onError(c), Output: c.Output, Cache: c.Cache,
		Limits: c.Limits, SessionLimits: c.SessionLimits,
	})
	if err != nil {
		return nil, err
	}
	return a.Start(ctx, agent.SessionConfig{ID: ID, Resume: &snap})
}

func onError(c events.Config) agent.ToolErrorPolicy {
	if c.FailRun {
		return agent.FailRun
	}
	return agent.ReportToModel
}

// turn replays one turn: its inputs at the rounds at which it accepted them, and its decisions.
func (r *replay) turn(ctx context.Context, s *session.Session, t turn) error {
	rounds := 0
	var running *session.Turn
	submit := func() error {
		for len(t.inputs) > 0 && t.inputs[0].after <= rounds {
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
		return nil
	}
	if t.open {
		running = s.Open()
	}
	for {
		if err := submit(); err != nil || running == nil {
			return err
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
			return nil
		case nil:
			if err != nil && s.OpenTurn() == "" { // the turn ended with it, which the comparison shows
				return nil
			}
			return err
		}
	}
}

// decide decides as the journal did, or asks about a live call.
func (r *replay) decide(ctx context.Context, s *session.Session, a events.Approval) error {
	switch d, recorded, err := r.tape.decision(a); {
	case err != nil:
		return err
	case recorded:
		return s.ResolveApproval(ctx, d)
	}
	d := session.Decision{Call: a.CallID, Reason: "no one decides about live calls in this replay"}
	if r.cfg.Approver != nil {
		var err error
		if d.Approve, d.Reason, err = r.cfg.Approver.Approve(ctx, a); err != nil {
			return err
		}
	}
	return s.ResolveApproval(ctx, d)
}

// again counts the events before the beginning of the replay that it repeats: input that is about to be answered, and
// decisions about calls that have not run.
func (r *replay) again() map[events.Kind]int {
	st, n := r.origin.State, map[events.Kind]int{}
	if len(st.Queue) > 0 || len(r.waiting) > 0 {
		n[events.KindInputQueued] = 1
	}
	if t := st.Turn; t != nil {
		for _, a := range t.Approvals {
			if c, ok := st.Call(a.CallID); ok && c.Result == nil && a.Outcome != "" {
				n[events.KindApprovalResolved]++
			}
		}
	}
	return n
}

// result compares the journal, up to an entry or all of it, with the replay so far.
func (r *replay) result(ctx context.Context, to uint64) (*Result, error) {
	var was, is compare.Reader
	for i, rec := range r.records {
		if to == 0 || rec.Seq <= to {
			was.Add(rec)
		}
		if i < r.opened { // the replay has this history, too
			is.Add(rec)
		}
	}
	out := &Result{Recorded: r.tape.recorded.Load(), Live: r.tape.ran.Load(), Missing: r.tape.missing.Load(), Unrepeated: r.unrepeated}
	again := r.again()
	for rec, err := range r.journal.Read(ctx, ID, 0) {
		if err != nil {
			return nil, err
		}
		out.Records = append(out.Records, rec)
		if slices.Contains(rec.Entry.Kinds(), events.KindRunStarted) {
			continue
		}
		rec.Entry.Events = slices.DeleteFunc(slices.Clone(rec.Entry.Events), func(ev events.Event) bool {
			k := events.KindOf(ev)
			again[k]--
			return again[k] >= 0
		})
		is.Add(rec)
	}
	out.Diff = compare.Between(&was, &is)
	return out, nil
}
