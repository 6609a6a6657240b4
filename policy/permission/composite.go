package permission

import (
	"context"

	"github.com/turnlog/turnlog/tool"
)

// composite is several policies as one.
type composite []tool.Permissions

// All evaluates the policies in order. The first Deny wins. Without one, any Ask beats Allow, and
// each question is asked separately. Otherwise any Allow allows. If no policy has an opinion, the
// result has none either, and the call runs. An error from a policy counts as a denial.
func All(policies ...tool.Permissions) tool.Permissions { return composite(policies) }

// Evaluate judges the request.
func (c composite) Evaluate(ctx context.Context, r tool.Request) (tool.Verdict, error) {
	var all combined
	for _, p := range c {
		v, err := p.Evaluate(ctx, r)
		if err != nil {
			return tool.Verdict{}, err
		}
		if all.add(v); all.denied() {
			break
		}
	}
	return all.verdict(), nil
}

// combine combines verdicts as All does.
func combine(verdicts ...tool.Verdict) tool.Verdict {
	var all combined
	for _, v := range verdicts {
		if all.add(v); all.denied() {
			break
		}
	}
	return all.verdict()
}

// combined combines verdicts by the rules of All.
type combined struct {
	out       tool.Verdict // the denial, or the last that allows
	questions []tool.Verdict
}

// add adds a verdict. An unknown ruling, from a later release, denies.
func (c *combined) add(v tool.Verdict) {
	switch v.Ruling {
	case tool.NoOpinion:
	case tool.Allow, tool.Deny:
		c.out = v
	case tool.Ask:
		c.questions = append(c.questions, v.Questions()...)
	default:
		c.out = deny(tool.CodeDenied, "unknown ruling %d", v.Ruling)
	}
}

func (c *combined) denied() bool { return c.out.Ruling == tool.Deny }

func (c *combined) verdict() tool.Verdict {
	if len(c.questions) > 0 && !c.denied() {
		return together(c.questions)
	}
	return c.out
}

func together(questions []tool.Verdict) tool.Verdict {
	v := questions[0]
	v.Also = append([]tool.Verdict(nil), questions[1:]...)
	return v
}
