package replay

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// repeat decides the commands of the journal again, up to the model's first different reply.
func (r *replay) repeat(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil { // no host wrote this journal
			err = fmt.Errorf("the journal cannot be folded; \"observer verify\" says why: %v", p)
		}
	}()
	if err := r.check(); err != nil {
		return err
	}
	r.state = loop.New(r.records[0].Entry.Session)
	for i, rec := range r.records {
		got, differs, err := r.callModel(ctx, rec)
		if err != nil {
			return err
		}
		if differs {
			r.differs = i
			return r.goOn(ctx, rec, got)
		}
		env := r.changed(causeOf(r.state, rec.Entry))
		env.Command = priced(env.Command, got)
		evs, err := loop.Decide(r.state, env)
		if err != nil || len(evs) == 0 {
			evs = rec.Entry.Events
		}
		if err != nil || got == nil && r.cfg.System == "" && !bytes.Equal(shown(evs), shown(rec.Entry.Events)) {
			r.otherwise = append(r.otherwise, rec.Seq)
		}
		if err := r.append(ctx, rec.Entry, evs); err != nil {
			return err
		}
	}
	r.differs = len(r.records)
	return nil
}

// check returns an error if there is nothing to replay, and reads the journal into the tape.
func (r *replay) check() error {
	if len(r.records) == 0 {
		return ErrNoSession
	}
	of := r.records[0].Entry.Session
	end, err := engine.FoldTo(of, r.all, math.MaxUint64)
	if err != nil {
		return err
	}
	begins := end
	if r.cfg.From > 0 {
		if begins, err = engine.FoldTo(of, r.all, r.cfg.From); err != nil {
			return err
		}
	}
	if !begins.State.Opened || end.State.Deleted != nil || begins.Head.Seq < r.cfg.From {
		return fmt.Errorf("%w at entry %d", ErrNoSession, max(r.cfg.From, 1))
	}
	for _, rec := range r.records {
		for _, ev := range rec.Entry.Events {
			r.tape.add(ev)
		}
	}
	return nil
}

// append writes an entry of the replay.
func (r *replay) append(ctx context.Context, of events.Entry, evs []events.Event) (err error) {
	e := events.Entry{Session: id, Cause: of.Cause, At: of.At, Epoch: of.Epoch, Cursors: of.Cursors, Events: evs}
	if r.head, err = r.journal.Append(ctx, r.head, e); err != nil {
		return err
	}
	e.Session, e.Seq = of.Session, r.head.Seq // what is decided depends on it
	r.state.Fold(e)
	for _, ev := range evs {
		if e, ok := ev.(events.ToolResultReceived); ok && !e.Late && r.head.Seq > r.cfg.From && (e.Attempt > 0 || e.Result.Status == content.StatusError) {
			r.recorded++ // it ran, or its check failed
		}
		r.tape.passed(ev)
	}
	return nil
}

// changed replaces the system prompt in commands that set the transcript.
func (r *replay) changed(env commands.Envelope) commands.Envelope {
	if r.cfg.System == "" {
		return env
	}
	switch c := env.Command.(type) { //nolint:gochecksumtype // no other has the prompt
	case commands.OpenSession:
		c.Transcript = r.prompted(c.Transcript)
		env.Command = c
	case commands.ReportMutation:
		if c.Finished.Dirty {
			c.Finished.Replacement = r.prompted(c.Finished.Replacement)
			env.Command = c
		}
	}
	return env
}

func (r *replay) prompted(items []content.Item) []content.Item {
	for len(items) > 0 && items[0].Kind == content.System {
		items = items[1:]
	}
	return slices.Concat([]content.Item{content.SystemText(r.cfg.System)}, items)
}

// callModel calls the other model, if there is one, instead of using a recorded reply or failure. It returns the model's
// report, or nil if the model was not called, and whether the reply differs.
func (r *replay) callModel(ctx context.Context, rec journal.Record) (got commands.Command, differs bool, err error) {
	if r.cfg.Model == nil || rec.Seq <= r.cfg.From {
		return nil, false, nil
	}
	var was *events.ReplyRecorded
	switch e := rec.Entry.Events[0].(type) { //nolint:gochecksumtype // the others are no end of a call that the model made
	case events.ReplyRecorded:
		if e.Interrupted {
			return nil, false, nil
		}
		was = &e
	case events.ModelCallFailed:
	default:
		return nil, false, nil
	}
	owed := loop.Pending(r.state)
	i := slices.IndexFunc(owed, func(e loop.Effect) bool { _, ok := e.(loop.CallModel); return ok })
	if i < 0 {
		return nil, false, nil
	}
	catalog, err := engine.NewCatalog(ctx, r.sources(), tool.FirstWins, r.state.Config.Tools, false)
	if err != nil {
		return nil, false, err
	}
	call, _ := owed[i].(loop.CallModel)
	call.Rules = loop.Rules{} // the tape has what was asked
	s := engine.Session{Replica: engine.Replica{State: r.state, Head: r.head}, Catalog: catalog}
	got = engine.NewRunner(engine.Config{Permissions: r.tape}).CallModel(ctx, call, r.cfg.Model, s.View(owed), func(events.Event) {})
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	reply, replied := got.(commands.ReportReply)
	same := was == nil && !replied || was != nil && replied && replyText(was.Items) == replyText(reply.Items)
	return got, !same, nil
}

// priced returns the report of a recorded reply with the cost of the new one.
func priced(recorded, again commands.Command) commands.Command {
	was, ok := recorded.(commands.ReportReply)
	now, replied := again.(commands.ReportReply)
	if !ok || !replied {
		return recorded
	}
	was.Usage, was.Model, was.ResponseID = now.Usage, now.Model, now.ResponseID
	return was
}

// replyText returns the text and the calls of a reply, in the form in which they are compared.
func replyText(items []content.Item) string {
	var b strings.Builder
	for _, it := range items {
		fmt.Fprintln(&b, it.Text())
		for _, c := range it.Calls() {
			fmt.Fprintln(&b, keyOf(c.Name, c.Input))
		}
	}
	return b.String()
}

// goOn continues the session with the other reply instead of a record. Calls that run in the background get their results
// now, since no record says when they ended.
func (r *replay) goOn(ctx context.Context, rec journal.Record, other commands.Command) error {
	allow := permission.AllowAll().For(events.Subject{})
	e := rec.Entry
	e.Cursors = nil
	if err := r.decided(ctx, e, commands.Envelope{Command: other, Policy: &allow}); err != nil {
		return err
	}
	for _, c := range slices.Clone(r.state.Background) {
		was := r.tape.calls[c.ID]
		if !c.Running() || was == nil || was.result == nil {
			continue
		}
		e.Cause = "result/" + string(c.Place)
		report := commands.ReportResult{Place: c.Place, Attempt: c.Attempt, Queue: c.Routing.Queue, Outcome: tool.Result{Result: *was.result}}
		if err := r.decided(ctx, e, commands.Envelope{Command: report}); err != nil {
			return err
		}
	}
	r.follow()
	return nil
}

// decided decides a command that the replay itself adds, at the time of an entry.
func (r *replay) decided(ctx context.Context, of events.Entry, env commands.Envelope) error {
	env.ID, env.Session, env.At = of.Cause, of.Session, of.At
	evs, err := loop.Decide(r.state, env)
	if err != nil || len(evs) == 0 {
		return err
	}
	return r.append(ctx, of, evs)
}
