package permission

import (
	"context"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// Kinds is a policy by the kind of the request. An entry matches its kind and every kind
// below it: mail matches mail and mail.send. The longest match counts; of equal ones, deny
// before ask before allow. Without a match it has no opinion.
type Kinds struct {
	Allow, Ask, Deny []string
}

var _ tool.Permissions = Kinds{}

// Evaluate judges the request by its kind.
func (p Kinds) Evaluate(_ context.Context, r tool.Request) (tool.Verdict, error) {
	denied, asked, allowed := longest(p.Deny, r.Kind), longest(p.Ask, r.Kind), longest(p.Allow, r.Kind)
	switch n := max(denied, asked, allowed); {
	case n < 0:
		return tool.Verdict{}, nil
	case n == denied:
		return deny(CodeKind, "requests of the kind %s are denied", r.Kind), nil
	case n == asked:
		return ask(r.Kind, "", content.UnknownTarget, ""), nil
	}
	return allow(), nil
}

// longest returns the length of the longest entry that matches the kind, or -1.
func longest(entries []string, kind string) int {
	n := -1
	for _, e := range entries {
		e = strings.TrimSuffix(e, ".")
		if kind != "" && (e == kind || strings.HasPrefix(kind, e+".")) {
			n = max(n, len(e))
		}
	}
	return n
}
