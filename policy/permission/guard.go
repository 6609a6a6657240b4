package permission

import (
	"context"

	"github.com/turnlog/turnlog/tool"
)

// Guard returns middleware that judges each call of t by p, just before it runs. A
// denial becomes the call's result; a question that nobody answered yet becomes one
// to people, and the call is made again once it is approved. It stands innermost, so
// that it sees the call that the tool gets.
func Guard(p tool.Permissions, t tool.Tool) tool.Middleware {
	return func(ctx context.Context, c tool.Call, next tool.Handler) (tool.Output, error) {
		j := Judge(ctx, p, t, c, c.Approved...)
		switch {
		case j.Refusal != nil && j.Refusal.Forbidden():
			return tool.Output{}, tool.Forbidden(j.Refusal.Code, j.Refusal.Message)
		case j.Refusal != nil:
			return tool.Output{}, tool.Failure(j.Refusal.Code, "%s", j.Refusal.Message)
		case len(j.Gates) > 0:
			return tool.Output{}, tool.NeedsApproval(j.Question())
		}
		return next(ctx, c)
	}
}
