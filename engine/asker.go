package engine

import (
	"context"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// recordingPolicy is what the host permits, and remembers whether it asked about a call as
// such, as rules do. The host judges by what the tool declares, whatever the session's
// agent says of it.
type recordingPolicy struct {
	tool.Permissions

	spec  tool.Spec
	asked bool
}

// Evaluate asks the host.
func (o *recordingPolicy) Evaluate(ctx context.Context, r tool.Request) (tool.Verdict, error) {
	r.Spec = o.spec
	v, err := o.Permissions.Evaluate(ctx, r)
	for _, q := range v.Questions() {
		o.asked = o.asked || err == nil && v.Ruling == tool.Ask && q.RequestKind == permission.KindCall
	}
	return v, err
}

// narrowing is a turn's rules as a policy.
func narrowing(lists [][]events.Rule) tool.Permissions {
	all := make([]tool.Permissions, len(lists))
	for i, l := range lists {
		all[i] = permission.Narrowing(l)
	}
	return permission.All(all...)
}

// asker says who asks about a call as such, once the host was heard: its turn before
// everything else, the session's rules only if nothing else does.
func (o *recordingPolicy) asker(ctx context.Context, rules loop.Rules, about tool.Request) events.Asker {
	asks := func(p tool.Permissions) bool {
		v, err := p.Evaluate(ctx, about)
		return err == nil && v.Ruling == tool.Ask
	}
	switch {
	case asks(narrowing(rules.Turn)):
		return events.AskedByTurn
	case !o.asked && asks(permission.Rules(rules.Session)):
		return events.AskedByRules
	}
	return ""
}
