package permission

import (
	"context"

	"github.com/turnlog/turnlog/tool"
)

// composite is several policies as one.
type composite []tool.Permissions

// All evaluates the policies in order. The first Deny wins; else any Ask beats Allow, and
// each question is asked separately; else any Allow allows. If no policy has an opinion
// the result has none either, and the call runs. An error of a policy counts as a denial.
func All(policies ...tool.Permissions) tool.Permissions { return composite(policies) }

// Evaluate judges the request.
func (c composite) Evaluate(ctx context.Context, r tool.Request) (tool.Verdict, error) {
	var verdicts []tool.Verdict
	for _, p := range c {
		v, err := p.Evaluate(ctx, r)
		if err != nil {
			return tool.Verdict{}, err
		}
		verdicts = append(verdicts, v)
		if v.Ruling == tool.Deny {
			break
		}
	}
	return combine(verdicts...), nil
}

// combine combines verdicts as All does. An unknown ruling, of a later release, denies.
func combine(verdicts ...tool.Verdict) tool.Verdict {
	var questions []tool.Verdict
	var out tool.Verdict
	for _, v := range verdicts {
		switch v.Ruling {
		case tool.NoOpinion:
		case tool.Allow:
			out = v
		case tool.Ask:
			questions = append(questions, v.Questions()...)
		case tool.Deny:
			return v
		default:
			return deny(tool.CodeDenied, "unknown ruling %d", v.Ruling)
		}
	}
	if len(questions) > 0 {
		return together(questions)
	}
	return out
}

// together returns the verdict that asks all of the questions.
func together(questions []tool.Verdict) tool.Verdict {
	v := questions[0]
	v.Also = append([]tool.Verdict(nil), questions[1:]...)
	return v
}
