package permission

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// Guard returns middleware that judges each call of t by p just before it runs. A denial
// becomes the call's result. An unapproved question becomes an approval request, and the
// call is made again once it is approved. Guard must be the innermost middleware, so that
// it sees the call that the tool gets.
func Guard(p tool.Permissions, t tool.Tool) tool.Middleware {
	return func(ctx context.Context, c tool.Call, next tool.Handler) (tool.Output, error) {
		questions, err := Judge(ctx, p, t, c, c.Approved...)
		switch {
		case err != nil:
			return tool.Output{}, err
		case len(questions) > 0:
			return tool.Output{}, tool.NeedsApproval(together(questions))
		}
		c.Permit = Permit(p, t, c)
		return next(ctx, c)
	}
}

// Permit returns the function with which a running call of t asks p; see [tool.Call].
func Permit(p tool.Permissions, t tool.Tool, c tool.Call) func(ctx context.Context, kind, summary string, target any) error {
	return func(ctx context.Context, kind, summary string, target any) (err error) {
		r := tool.RequestFor(t.Spec(), c)
		r.Kind, r.Summary = kind, summary
		if r.Target, err = json.Marshal(target); err == nil {
			_, err = judge(ctx, p, c, r)
		}
		return err
	}
}

// Judge asks t what the call will do, and p about each of those requests, before anything runs. It
// returns the questions to ask before the call may run. It returns a *[tool.Error] if a policy denies
// a request, or if t cannot say what the call would do. A denial of any request overrides all
// questions. Questions that approved answers are omitted, and equal ones are merged. Judge does not
// recover from panics.
func Judge(ctx context.Context, p tool.Permissions, t tool.Tool, c tool.Call, approved ...content.QuestionKey) ([]tool.Verdict, error) {
	requests, err := propose(ctx, t, c)
	if err != nil {
		return nil, tool.Failure(tool.CodeFailed, "%v", err)
	}
	var questions []tool.Verdict
	for _, r := range requests {
		r.Spec, r.Call.Input = t.Spec(), c.Input
		v, err := judge(ctx, p, c, r)
		if err != nil {
			return nil, err
		}
		if v.Ruling == tool.Ask {
			for _, q := range v.Questions() {
				if q = complete(r, q); !slices.Contains(approved, q.Key()) {
					questions = add(questions, q)
				}
			}
		}
	}
	return questions, nil
}

// propose returns the requests of a call.
func propose(ctx context.Context, t tool.Tool, c tool.Call) ([]tool.Request, error) {
	if p, ok := t.(tool.Proposer); ok {
		return p.Propose(ctx, c)
	}
	return []tool.Request{tool.RequestFor(t.Spec(), c)}, nil
}

// judge asks p about one request of a call. It returns a *[tool.Error] for a denial.
func judge(ctx context.Context, p tool.Permissions, c tool.Call, r tool.Request) (tool.Verdict, error) {
	r.Session, r.Call = c.Session, content.ToolCall{ID: c.ID, Place: c.Place, Name: c.Name, Input: c.Input}
	v, err := p.Evaluate(ctx, r)
	v = combine(v) // an unknown ruling denies
	switch {
	case err != nil:
		return v, tool.Forbidden(tool.CodeDenied, err.Error())
	case v.Ruling == tool.Deny:
		return v, tool.Forbidden(cmp.Or(v.Code, tool.CodeDenied), v.Message)
	}
	return v, nil
}

// add adds a question. Equal questions about two requests become one that shows both.
func add(questions []tool.Verdict, q tool.Verdict) []tool.Verdict {
	i := slices.IndexFunc(questions, func(o tool.Verdict) bool { return o.Key() == q.Key() })
	switch {
	case i < 0:
		return append(questions, q)
	case questions[i].Summary != q.Summary:
		questions[i].Summary += "; " + q.Summary
	}
	return questions
}

// complete fills in the fields that a verdict leaves empty.
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
