package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
)

// fickle is a model that does anything a model may do, depending only on the place of the
// call.
type fickle struct {
	*modeltest.Fake
	w *world
}

func (w *world) model() model.Model { return &fickle{modeltest.NewFake("fickle", w.reply), w} }

// Call answers, or streams for a while and never ends.
func (f *fickle) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	f.w.did("model ", r.Session, "/", r.Turn, "/", r.Round, "/", r.Attempt)
	f.w.checkRequest(r)
	d := f.w.dice("talk", r.Session, r.Turn, r.Round, r.Attempt)
	if f.w.calmed() || !d.one(15) {
		return f.Fake.Call(ctx, r, emit)
	}
	f.w.saw("model: half an answer, then silence")
	emit(content.Delta{Op: content.BeginPart, Kind: content.TextKind})
	emit(content.Delta{Op: content.AppendPart, Kind: content.TextKind, Text: "half an answer"})
	if err := f.w.hang(ctx); err != nil {
		return model.Reply{}, err
	}
	return modeltest.Text("half an answer"), nil
}

// checkRequest checks what every model call may rely on.
func (w *world) checkRequest(r model.Request) {
	if i, call, problem := content.Unpaired(r.Transcript); problem != "" {
		w.wrong("%s/%s/%d: the model was shown item %d, call %s: %s", r.Session, r.Turn, r.Round, i, call, problem)
	}
	if len(r.Transcript) == 0 {
		w.wrong("%s/%s/%d: the model was shown nothing", r.Session, r.Turn, r.Round)
	}
}

func (w *world) reply(ctx context.Context, r model.Request) (model.Reply, error) {
	d := w.dice("model", r.Session, r.Turn, r.Round, r.Attempt)
	if w.calmed() || r.Round > 7 {
		return modeltest.Text("done"), nil
	}
	if d.one(3) {
		if err := nap(ctx, d.upTo(among(d, time.Second, time.Minute))); err != nil {
			return model.Reply{}, err
		}
	}
	do := pick(d,
		choice[func(dice, model.Request) (model.Reply, error)]{8, says},
		choice[func(dice, model.Request) (model.Reply, error)]{24, calls},
		choice[func(dice, model.Request) (model.Reply, error)]{6, fails},
		choice[func(dice, model.Request) (model.Reply, error)]{2, ends},
	)
	rep, err := do(d, r)
	rep.Usage = content.Usage{InputTokens: d.Int64N(200), OutputTokens: d.Int64N(100), CostMicros: d.Int64N(30)}
	return rep, err
}

func says(d dice, r model.Request) (model.Reply, error) {
	return modeltest.Text(fmt.Sprintf("answer %d of %s", d.IntN(100), r.Turn)), nil
}

// calls requests one to four calls, with repeated IDs and names, and invalid arguments.
func calls(d dice, _ model.Request) (model.Reply, error) {
	var out []content.ToolCall
	for range 1 + d.IntN(4) {
		out = append(out, content.ToolCall{
			ID:    among(d, content.CallID("c1"), "c2", "c3", "", "not a token!", "t1-r1-c1", content.CallID(strings.Repeat("x", 200))),
			Name:  among(d, append(toolNames(), "nope")...),
			Input: pick(d, choice[json.RawMessage]{9, json.RawMessage(`{"n":1}`)}, choice[json.RawMessage]{1, json.RawMessage(`{"n":"x"}`)}),
		})
	}
	rep := modeltest.Calls(out...)
	if d.one(2) {
		rep.Items[0].Parts = append([]content.Part{content.TextPart("let me see")}, rep.Items[0].Parts...)
	}
	rep.FinishReason = pick(d,
		choice[content.FinishReason]{20, content.ToolCalls}, choice[content.FinishReason]{10, ""},
		choice[content.FinishReason]{1, content.Completed}, choice[content.FinishReason]{1, content.MaxTokens},
	)
	return rep, nil
}

// fails returns an error of any class, or panics.
func fails(d dice, _ model.Request) (model.Reply, error) {
	switch d.IntN(12) {
	case 0:
		panic("the adapter broke")
	case 1:
		return model.Reply{}, errors.New("not even typed")
	}
	return model.Reply{}, &model.Error{
		Class: among(d,
			content.ClassRateLimit, content.ClassOverloaded, content.ClassTimeout, content.ClassNetwork, content.ClassServer,
			content.ClassAuth, content.ClassBilling, content.ClassInvalid, content.ClassTooLong, content.ClassBlocked, content.ClassOther,
		),
		Code: "sim", Message: "no \xff luck", RetryAfter: among(d, 0, 3*time.Second, 2*time.Minute),
		Usage: content.Usage{InputTokens: d.Int64N(2)},
	}
}

// ends returns replies with unusual ends.
func ends(d dice, _ model.Request) (model.Reply, error) {
	rep := modeltest.Text("so far")
	rep.FinishReason = among(d, content.MaxTokens, content.Blocked, content.Compaction, content.Cancelled, content.ToolCalls, content.Limit, "novel")
	if d.one(3) {
		rep.Items = nil
	}
	if d.one(8) {
		rep.Items = append(rep.Items, modeltest.Text("and more").Items...)
	}
	return rep, nil
}
