package permission

import (
	"context"
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// Composite is several policies as one.
type Composite struct {
	policies  []tool.Permissions
	otherwise tool.Ruling
}

var _ tool.Permissions = Composite{}

// All asks the policies in order. The first Deny wins; else any Ask beats Allow, and
// each question is a gate of its own; else any Allow allows. Where none has an
// opinion the composite has none either, unless Else gives it one. A call about
// which nobody has an opinion in the end runs.
func All(policies ...tool.Permissions) Composite { return Composite{policies: policies} }

// Else returns a composite that answers with the ruling where no policy has an
// opinion.
func (c Composite) Else(r tool.Ruling) Composite {
	c.otherwise = r
	return c
}

// Evaluate judges the request. It returns the error of the first policy that fails,
// which counts as a denial.
func (c Composite) Evaluate(ctx context.Context, r tool.Request) (tool.Verdict, error) {
	var asked []tool.Verdict
	allowed := false
	for _, p := range c.policies {
		v, err := p.Evaluate(ctx, r)
		if err != nil {
			return tool.Verdict{}, err
		}
		switch v.Ruling {
		case tool.Deny:
			return v, nil
		case tool.Ask:
			asked = append(asked, v.Questions()...)
		case tool.Allow:
			allowed = true
		case tool.NoOpinion:
		default:
			return tool.Verdict{}, fmt.Errorf("unknown ruling %d", v.Ruling)
		}
	}
	switch {
	case len(asked) > 0:
		return together(asked), nil
	case allowed:
		return allow(), nil
	}
	return c.fallback(r), nil
}

func (c Composite) fallback(r tool.Request) tool.Verdict {
	switch c.otherwise {
	case tool.Allow:
		return allow()
	case tool.Ask:
		return tool.Verdict{Ruling: tool.Ask, Reason: content.UnknownTarget}
	case tool.Deny:
		return deny(CodeNoOpinion, "no policy permits %s", r.Call.Name)
	case tool.NoOpinion:
	}
	return tool.Verdict{}
}

// together is the verdict that asks them all.
func together(asked []tool.Verdict) tool.Verdict {
	v := asked[0]
	v.Also = append([]tool.Verdict(nil), asked[1:]...)
	return v
}

// combine puts the verdicts of one policy on the parts of a request together, by the
// law of composites.
func combine(verdicts ...tool.Verdict) tool.Verdict {
	var asked []tool.Verdict
	var out tool.Verdict
	for _, v := range verdicts {
		switch v.Ruling {
		case tool.Deny:
			return v
		case tool.Ask:
			asked = append(asked, v.Questions()...)
		case tool.Allow:
			out = allow()
		case tool.NoOpinion:
		}
	}
	if len(asked) > 0 {
		return together(asked)
	}
	return out
}
