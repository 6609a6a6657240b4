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

// All evaluates the policies in order. The first Deny wins; else any Ask beats Allow, and
// each question is asked separately; else any Allow allows. If no policy has an opinion
// the composite has none either, unless Else gives it one; a call that no policy has an
// opinion about runs.
func All(policies ...tool.Permissions) Composite { return Composite{policies: policies} }

// Else returns a composite that answers with the ruling if no policy has an opinion.
func (c Composite) Else(r tool.Ruling) Composite {
	c.otherwise = r
	return c
}

// Evaluate judges the request. It returns the error of the first policy that fails, which
// counts as a denial.
func (c Composite) Evaluate(ctx context.Context, r tool.Request) (tool.Verdict, error) {
	var verdicts []tool.Verdict
	for _, p := range c.policies {
		v, err := p.Evaluate(ctx, r)
		switch {
		case err != nil:
			return tool.Verdict{}, err
		case v.Ruling == tool.Deny:
			return v, nil
		case v.Ruling != tool.Ask && v.Ruling != tool.Allow && v.Ruling != tool.NoOpinion:
			return tool.Verdict{}, fmt.Errorf("unknown ruling %d", v.Ruling)
		}
		verdicts = append(verdicts, v)
	}
	if v := combine(verdicts...); v.Ruling != tool.NoOpinion {
		return v, nil
	}
	switch c.otherwise {
	case tool.Ask:
		return tool.Verdict{Ruling: tool.Ask, Reason: content.UnknownTarget}, nil
	case tool.Deny:
		return deny(CodeNoOpinion, "no policy permits %s", r.Call.Name), nil
	case tool.NoOpinion, tool.Allow:
	}
	return tool.Verdict{Ruling: c.otherwise}, nil
}

// combine combines verdicts the way a composite does.
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

// together returns the verdict that asks all of the questions.
func together(asked []tool.Verdict) tool.Verdict {
	v := asked[0]
	v.Also = append([]tool.Verdict(nil), asked[1:]...)
	return v
}
