// Package origin checks that a fork begins with the history of the session that it continues.
//
// A fork's journal has the history itself, and the hash of the origin's entry where it ends. So anyone with the origin's
// journal can fold it to that entry and compare. Without the origin, the fork is still complete.
package origin

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/session"
)

// Reader returns a session as it was after an entry, as engine.Reader.ReadTo does.
type Reader func(ctx context.Context, s content.SessionID, seq uint64) (engine.Replica, error)

// Fork collects what a journal says about the session that it continues, if it continues any.
type Fork struct {
	from    events.EntryRef // zero: none, or it is invalid
	said    string
	history []content.Item // the history with which the fork began
	reply   []content.Item // the reply of the round that it continued
	seq     uint64         // the entry that says so
	line    int
}

// Watch yields the records unchanged, and notes how the session began.
func (f *Fork) Watch(records iter.Seq2[journal.Record, error]) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for r, err := range records {
			if err == nil && f.seq == 0 {
				f.add(r)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (f *Fork) add(r journal.Record) {
	for _, ev := range r.Entry.Events {
		switch ev := ev.(type) { //nolint:gochecksumtype // the others are no history
		case events.RunStarted:
			f.seq, f.line, f.history, f.said = r.Seq, r.Line, ev.Transcript, ev.From
			f.from, _ = events.ParseEntryRef(ev.From) // Judge reports the error
		case events.ReplyRecorded:
			f.reply = ev.Items
		}
	}
}

// Judge adds to a verdict on the journal whether its history matches its origin, and settles it again. Without a reader, or
// if the origin is gone, that is not proved. Judge returns an error if reading fails.
func (f *Fork) Judge(ctx context.Context, v *verdict.Verdict, read Reader) error {
	if f.from.Session == "" {
		if f.said != "" {
			v.Add(verdict.Fault{Kind: verdict.Forged, Seq: f.seq, Line: f.line, What: fmt.Sprintf("it says that it continues %q, which names no entry", f.said)})
			v.Settle()
		}
		return nil
	}
	unchecked := "its journal is not here"
	if f.from.Hash.IsZero() {
		unchecked = "it does not say which hash that entry had"
	} else if read != nil {
		origin, err := contained(ctx, f.from, read)
		switch {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			unchecked = err.Error()
		case origin.State.Deleted != nil:
			unchecked = "that session " + origin.State.Deleted.String()
		case origin.Head.Seq == 0:
		default:
			unchecked = ""
			f.compare(v, origin)
		}
	}
	if unchecked != "" {
		v.UncheckedOrigin = fmt.Sprintf("%s: %s", f.from.Place(), unchecked)
	}
	v.Settle()
	return nil
}

// compare adds a fault if the fork did not begin with its origin's history.
func (f *Fork) compare(v *verdict.Verdict, origin engine.Replica) {
	fault := func(kind verdict.Kind, format string, args ...any) {
		v.Add(verdict.Fault{Kind: kind, Seq: f.seq, Line: f.line, What: fmt.Sprintf(format, args...)})
	}
	if origin.Head.Seq < f.from.Seq {
		fault(verdict.Forged, "it says that it continues %s, whose journal ends with entry %d", f.from.Place(), origin.Head.Seq)
		return
	}
	if origin.Head.Hash != f.from.Hash {
		fault(verdict.Replaced, "it says that it continues %s with the hash %s, and that entry has the hash %s", f.from.Place(), f.from.Hash, origin.Head.Hash)
		return
	}
	want, err := session.Fork(commands.OpenSession{From: f.from.String()}, origin.State, origin.Head)
	if err != nil {
		fault(verdict.Forged, "it says that it continues %s: %v", f.from.Place(), err)
		return
	}
	before, reply := want.Transcript, []content.Item(nil)
	if want.Resume {
		before, reply, _ = content.OpenRound(want.Transcript)
	}
	if !ends(f.history, before) || len(reply) > 0 && statement.Items(f.reply) != statement.Items(reply) {
		fault(verdict.Forged, "the history with which it began is not that of %s", f.from.Place())
	}
}

// ends reports whether a history equals the origin's, or ends with it apart from system items: another agent has its
// own prompt.
func ends(got, want []content.Item) bool {
	if statement.Items(got) == statement.Items(want) {
		return true
	}
	var rest []content.Item
	for _, it := range want {
		if it.Kind != content.System {
			rest = append(rest, it)
		}
	}
	prompt := len(got) - len(rest)
	return prompt >= 0 && statement.Items(got[prompt:]) == statement.Items(rest)
}

// contained reads the origin and recovers a panic: a journal that no host wrote may be impossible to fold.
func contained(ctx context.Context, at events.EntryRef, read Reader) (r engine.Replica, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it cannot be folded: %v", p)
		}
	}()
	r, err = read(ctx, at.Session, at.Seq)
	if errors.Is(err, journal.ErrNotFound) {
		return engine.Replica{}, nil
	}
	return r, err
}
