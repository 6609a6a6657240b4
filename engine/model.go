package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/internal/deltas"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
)

// CallModel makes one attempt and returns its report: a reply, a failure, or what had arrived
// when the attempt was stopped. The reply's calls are routed and, unless a hook must see the
// reply first, checked. CallModel returns nil if ctx ended with a cause other than ErrStop: the
// attempt is lost.
func (r *Runner) CallModel(ctx context.Context, e loop.CallModel, m model.Model, v *View, emit func(events.Event)) commands.Command {
	var partial partial
	seen := false
	show := func(d content.Delta) {
		seen = true
		emit(events.ContentDelta{Turn: e.Turn, Round: e.Round, Attempt: e.Attempt, Delta: d, After: 1 + partial.add(d)})
		for d, before := range partial.due() {
			emit(events.ContentRepeated{Turn: e.Turn, Round: e.Round, Attempt: e.Attempt, Delta: d, After: 1 + before})
		}
	}
	shown, _ := slices.BinarySearch(v.Attached, e.TranscriptLen)
	files := attachments{blobs: r.cfg.Blobs, items: v.Attached[:shown]}
	reply, err := r.call(ctx, model.Request{
		Session: v.Session, Turn: e.Turn, Round: e.Round, Attempt: e.Attempt,
		Transcript: v.Transcript[:e.TranscriptLen:e.TranscriptLen], Tools: v.Catalog.Specs(), Cache: e.Cache, Schema: e.Schema,
	}, m, &files, show)
	if err == nil && !seen && r.cfg.Durable != nil {
		_ = deltas.Stream(ctx, reply.Items, 0, show) // the wrapper had the reply already; it counts even if it is not shown
	}
	switch {
	case err == nil:
		rep := r.replied(ctx, e, v, reply)
		rep.Warnings = files.missing
		return rep
	case errors.Is(context.Cause(ctx), ErrStop):
		return commands.ReportModelStopped{ModelCall: e.ModelCall, Items: partial.items(), Usage: usageOf(err)}
	case ctx.Err() != nil:
		return nil
	}
	return failed(e.ModelCall, err)
}

func (r *Runner) call(
	ctx context.Context, req model.Request, m model.Model, files *attachments, emit func(content.Delta),
) (reply model.Reply, err error) {
	next := func(ctx context.Context, req model.Request) (model.Reply, error) {
		if r.cfg.Durable != nil { // it may have changed the request
			files.items = new(attached).in(req.Transcript)
		}
		req, err := files.open(ctx, req, m)
		if err != nil {
			return model.Reply{}, err
		}
		reply, err := m.Call(ctx, req, emit)
		if n := content.CountCalls(reply.Items); err == nil && n > content.MaxCalls {
			text := fmt.Sprintf("the reply has %d tool calls, at most %d", n, content.MaxCalls)
			err = &model.Error{Class: content.ClassOther, Code: "too_many_calls", Message: text, Usage: reply.Usage}
		}
		return reply, err
	}
	err = safely("the model adapter", func() error {
		if d := r.cfg.Durable; d != nil {
			reply, err = d.CallModel(ctx, req, next)
		} else {
			reply, err = next(ctx, req)
		}
		return err
	})
	return reply, err
}

func (r *Runner) replied(ctx context.Context, e loop.CallModel, v *View, reply model.Reply) commands.ReportReply {
	rep := commands.ReportReply{
		ModelCall: e.ModelCall, Items: reply.Items, FinishReason: reply.FinishReason,
		Usage: reply.Usage, Model: reply.Model, ResponseID: reply.ResponseID,
	}
	rep.Invalid = mismatch(e.Schema, reply)
	round := loop.Preflight{Turn: e.Turn, Rules: e.Rules}
	for _, it := range reply.Items {
		for _, c := range it.Calls() {
			c.Place = place(e, len(round.Calls)+1)
			routing := r.route(c, v.Catalog.Route(c, e.Routes))
			rep.Routing = append(rep.Routing, routing)
			round.Calls = append(round.Calls, loop.Call{ToolCall: c, Digest: routing.Digest, Routing: routing})
		}
	}
	if len(round.Calls) > 0 && !r.HasHooks(extension.PostLlmCall) && !r.HasHooks(extension.PreToolExecution) {
		rep.Checks = r.check(ctx, round, v)
	}
	return rep
}

func place(e loop.CallModel, c int) content.Place {
	n, err := strconv.Atoi(strings.TrimPrefix(string(e.Turn), "turn-"))
	if err != nil {
		return ""
	}
	return content.PlaceOf(n, e.Round, c)
}

func failed(m commands.ModelCall, err error) commands.Command {
	rep := commands.ReportModelFailed{ModelCall: m, Class: content.ClassOther, Message: err.Error(), Usage: usageOf(err)}
	if e, ok := errors.AsType[*model.Error](err); ok {
		rep.Class, rep.Code, rep.Message, rep.RetryAfter = e.Class, e.Code, e.Message, e.RetryAfter
	} else if _, ok := errors.AsType[*brokenError](err); ok {
		rep.Code = "panic"
	} else if errors.Is(err, context.DeadlineExceeded) {
		rep.Class = content.ClassTimeout
	}
	rep.Message = strings.ToValidUTF8(rep.Message, "\uFFFD")
	return rep
}

func usageOf(err error) content.Usage {
	if e, ok := errors.AsType[*model.Error](err); ok {
		return e.Usage
	}
	return content.Usage{}
}
