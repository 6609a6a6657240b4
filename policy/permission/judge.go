package permission

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// Judgement is what came of judging a call: it is refused, or it runs once its gates
// are approved. The zero Judgement lets it run.
type Judgement struct {
	Refusal *Refusal
	Gates   []tool.Verdict // questions, with all that they leave to the request
}

// Question is all that has to be asked in one verdict. It is about at least one gate.
func (j Judgement) Question() tool.Verdict { return together(j.Gates) }

// Refusal says why a call cannot run.
type Refusal struct {
	Status  content.Status // denied by a policy; error if the tool could not say what it would do
	Code    string
	Message string
}

// Forbidden reports whether a policy denies the call.
func (r Refusal) Forbidden() bool { return r.Status == content.StatusDenied }

// Text is what the model is told.
func (r Refusal) Text() string {
	if r.Forbidden() {
		return content.DenialText(r.Code + ": " + r.Message)
	}
	return "Tool failed: " + r.Message
}

// Judge asks t what the call will do, and p about each request, before anything
// runs. A Deny of any request wins before anybody is asked. Questions that approved
// answers are left out, and those that are the same are put together. Panics of the
// tool and of the policy are the caller's.
func Judge(ctx context.Context, p tool.Permissions, t tool.Tool, c tool.Call, approved ...content.GateKey) Judgement {
	requests, err := propose(ctx, t, c)
	if err != nil {
		return refusal(content.StatusError, tool.CodeFailed, err.Error())
	}
	var j Judgement
	spec := t.Spec()
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
				j.add(gate(r, q), approved)
			}
		case v.Ruling != tool.Allow && v.Ruling != tool.NoOpinion:
			return denied(tool.CodeDenied, fmt.Sprintf("unknown ruling %d", v.Ruling))
		}
	}
	return j
}

func propose(ctx context.Context, t tool.Tool, c tool.Call) ([]tool.Request, error) {
	if p, ok := t.(tool.Proposer); ok {
		return p.Propose(ctx, c)
	}
	return []tool.Request{tool.RequestFor(t.Spec(), c)}, nil
}

func denied(code, message string) Judgement {
	return refusal(content.StatusDenied, code, message)
}

func refusal(s content.Status, code, message string) Judgement {
	return Judgement{Refusal: &Refusal{Status: s, Code: code, Message: message}}
}

// add adds a gate, unless its question is answered. Whoever is asked the same of two
// requests sees both.
func (j *Judgement) add(g tool.Verdict, approved []content.GateKey) {
	if slices.Contains(approved, g.Key()) {
		return
	}
	i := slices.IndexFunc(j.Gates, func(o tool.Verdict) bool { return o.Key() == g.Key() })
	switch {
	case i < 0:
		j.Gates = append(j.Gates, g)
	case j.Gates[i].Summary != g.Summary:
		j.Gates[i].Summary += "; " + g.Summary
	}
}

// gate fills in what the verdict leaves to the request.
func gate(r tool.Request, v tool.Verdict) tool.Verdict {
	v.RequestKind = cmp.Or(v.RequestKind, r.Kind, r.Call.Name)
	v.Scope = cmp.Or(v.Scope, ScopeOf(v.RequestKind, r))
	v.Reason = cmp.Or(v.Reason, content.PolicyRequiresConfirmation)
	v.Summary = cmp.Or(v.Summary, summary(r))
	return v
}

func summary(r tool.Request) string {
	return cmp.Or(r.Summary, r.Call.Name+" "+string(r.Call.Input))
}
