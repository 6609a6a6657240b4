package replay_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/turnlog/turnlog/agent/replay"
	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/compare"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/frozen"
	"github.com/turnlog/turnlog/model"
)

// deviant answers as recorded in a journal, and differently from one answer on.
type deviant struct {
	recorded []events.ReplyRecorded // without items: a failure
	as       int                    // how many answers are as recorded
	asked    int
	uses     int64 // input tokens of each answer that is as recorded
}

const deviation = "Something else."

func (*deviant) Name() string                     { return "deviant" }
func (*deviant) Capabilities() model.Capabilities { return model.Capabilities{Tools: true} }

func (d *deviant) Call(context.Context, model.Request, func(content.Delta)) (model.Reply, error) {
	n := d.asked
	d.asked++
	switch {
	case n >= d.as:
		return model.Reply{Items: []content.Item{content.NewItem(content.Assistant, content.TextPart(deviation))}}, nil
	case d.recorded[n].Items == nil:
		return model.Reply{}, &model.Error{Class: content.ClassOther, Message: "no luck"}
	}
	return model.Reply{Items: d.recorded[n].Items, FinishReason: d.recorded[n].FinishReason, Usage: content.Usage{InputTokens: d.uses}}, nil
}

// answers returns what models answered in a journal, and the entries.
func answers(records []journal.Record) (all []events.ReplyRecorded, at []uint64) {
	for _, rec := range records {
		switch ev := rec.Entry.Events[0].(type) { //nolint:gochecksumtype // the others are no answers
		case events.ReplyRecorded:
			if !ev.Interrupted {
				all, at = append(all, ev), append(at, rec.Seq)
			}
		case events.ModelCallFailed:
			all, at = append(all, events.ReplyRecorded{}), append(at, rec.Seq)
		}
	}
	return all, at
}

// TestAnotherReplyChangesNothingBeforeIt replays every frozen journal with a model that answers differently from some reply
// on. Up to there, cancels, hooks, compaction, background calls and tasks are the same, and the session continues.
func TestAnotherReplyChangesNothingBeforeIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, records := range frozen.Journals(t) {
			recorded, at := answers(records)
			for n := range recorded {
				m := &deviant{recorded: recorded, as: n}
				out, err := replay.Run(t.Context(), records, replay.Config{Model: m})
				if err != nil {
					t.Errorf("%s, answer %d: %v", name, n, err)
					continue
				}
				before := int(at[n]) - 1
				if out.Diff.Same || earlier(out.Diff.First.A, at[n]) && len(out.Otherwise) == 0 {
					t.Errorf("%s, answer %d in entry %d: %s", name, n, at[n], summary(out))
				}
				if len(out.Records) <= before || !slices.EqualFunc(records[:before], out.Records[:before], sameKinds) {
					t.Errorf("%s, answer %d: other entries before it", name, n)
				}
				if !said(out, deviation) {
					t.Errorf("%s, answer %d is not in the replay", name, n)
				}
				if bad, err := audit.Verify(journal.All(out.Records)); err != nil || !bad.OK() {
					t.Errorf("%s, answer %d: %v %v", name, n, bad.Faults, err)
				}
			}
		}
	})
}

// TestTheSameReplyOfAnotherModelCostsWhatItCosts has a model that replies as recorded, but uses other amounts of
// tokens.
func TestTheSameReplyOfAnotherModelCostsWhatItCosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		records := frozen.Journal(t, "plain")
		recorded, _ := answers(records)
		out, err := replay.Run(t.Context(), records, replay.Config{Model: &deviant{recorded: recorded, as: len(recorded), uses: 7000}})
		if err != nil {
			t.Fatal(err)
		}
		var used content.Usage
		for _, end := range turns(out) {
			used = used.Add(end.Usage)
		}
		if want := int64(7000 * len(recorded)); used.InputTokens != want {
			t.Errorf("the turns used %+v, want %d tokens", used, want)
		}
		if bad, err := audit.Verify(journal.All(out.Records)); err != nil || !bad.OK() {
			t.Errorf("%v %v", bad.Faults, err)
		}
	})
}

func earlier(s *compare.Step, seq uint64) bool { return s != nil && s.Seq < seq }

func sameKinds(a, b journal.Record) bool { return slices.Equal(a.Entry.Kinds(), b.Entry.Kinds()) }
