package permission

import (
	"cmp"
	"context"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// Judgement is the outcome for a call: it is refused, or it runs once its questions are
// approved. The zero Judgement lets it run.
type Judgement struct {
	Refusal   *Refusal
	Questions []tool.Verdict // complete ones
}

// Question returns the questions, of which there must be one, as one verdict.
func (j Judgement) Question() tool.Verdict { return together(j.Questions) }

// Refusal says why a call cannot run.
type Refusal struct {
	Status  content.Status // denied by a policy; error if the tool could not say what it would do
	Code    string
	Message string
}

// Forbidden reports whether a policy denies the call.
func (r Refusal) Forbidden() bool { return r.Status == content.StatusDenied }

// Text returns the refusal for the model.
func (r Refusal) Text() string {
	if r.Forbidden() {
		return content.DenialText(r.Code + ": " + r.Message)
	}
	return "Tool failed: " + r.Message
}

// Guard returns middleware that judges each call of t by p just before it runs. A denial
// becomes the call's result. An unapproved question becomes an approval request, and the
// call is made again once it is approved. Guard must be the innermost middleware, so that it sees the
// call that the tool gets.
func Guard(p tool.Permissions, t tool.Tool) tool.Middleware {
	return func(ctx context.Context, c tool.Call, next tool.Handler) (tool.Output, error) {
		j := Judge(ctx, p, t, c, c.Approved...)
		switch {
		case j.Refusal != nil && j.Refusal.Forbidden():
			return tool.Output{}, tool.Forbidden(j.Refusal.Code, j.Refusal.Message)
		case j.Refusal != nil:
			return tool.Output{}, tool.Failure(j.Refusal.Code, "%s", j.Refusal.Message)
		case len(j.Questions) > 0:
			return tool.Output{}, tool.NeedsApproval(j.Question())
		}
		return next(ctx, c)
	}
}

// Judge asks t what the call will do, and p about each of those requests, before anything
// runs. A Deny of any request wins before any question is asked. Questions that approved
// answers are omitted, and equal ones are merged. Judge does not recover from panics.
func Judge(ctx context.Context, p tool.Permissions, t tool.Tool, c tool.Call, approved ...content.QuestionKey) Judgement {
	requests := []tool.Request{tool.RequestFor(t.Spec(), c)}
	if proposer, ok := t.(tool.Proposer); ok {
		var err error
		if requests, err = proposer.Propose(ctx, c); err != nil {
			return Judgement{Refusal: &Refusal{Status: content.StatusError, Code: tool.CodeFailed, Message: err.Error()}}
		}
	}
	var j Judgement
	spec, p := t.Spec(), All(p)
	for _, r := range requests {
		r.Session, r.Spec = c.Session, spec
		r.Call = content.ToolCall{ID: c.ID, Place: c.Place, Name: c.Name, Input: c.Input}
		v, err := p.Evaluate(ctx, r)
		switch {
		case err != nil:
			return denied(tool.CodeDenied, err.Error())
		case v.Ruling == tool.Deny:
			return denied(cmp.Or(v.Code, tool.CodeDenied), v.Message)
		case v.Ruling == tool.Ask:
			for _, q := range v.Questions() {
				j.add(complete(r, q), approved)
			}
		}
	}
	return j
}

func denied(code, message string) Judgement {
	return Judgement{Refusal: &Refusal{Status: content.StatusDenied, Code: code, Message: message}}
}

// add adds a question, unless it is approved. Equal questions about two requests become one
// that shows both.
func (j *Judgement) add(q tool.Verdict, approved []content.QuestionKey) {
	if slices.Contains(approved, q.Key()) {
		return
	}
	i := slices.IndexFunc(j.Questions, func(o tool.Verdict) bool { return o.Key() == q.Key() })
	switch {
	case i < 0:
		j.Questions = append(j.Questions, q)
	case j.Questions[i].Summary != q.Summary:
		j.Questions[i].Summary += "; " + q.Summary
	}
}

// complete fills in what the verdict leaves to the request.
func complete(r tool.Request, v tool.Verdict) tool.Verdict {
	v.RequestKind = cmp.Or(v.RequestKind, r.Kind, r.Call.Name)
	v.Scope = cmp.Or(v.Scope, scopeOf(v.RequestKind, r))
	v.Reason = cmp.Or(v.Reason, content.PolicyRequiresConfirmation)
	v.Summary = cmp.Or(v.Summary, summary(r))
	return v
}

func summary(r tool.Request) string {
	return cmp.Or(r.Summary, r.Call.Name+" "+string(r.Call.Input))
}
