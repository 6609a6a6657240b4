package permission

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/nearest"
	"github.com/turnlog/turnlog/tool"
)

// Kinds is a policy by the kind of the request. An entry matches its kind and every kind below it:
// mail matches mail and mail.send. The longest match counts. If several are equally long, deny comes
// before ask, and ask before allow. Without a match it has no opinion.
type Kinds struct {
	Allow []string `json:"allow,omitempty"`
	Ask   []string `json:"ask,omitempty"`
	Deny  []string `json:"deny,omitempty"`
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

// RequestKinds returns the kinds of requests of Turnlog's tools, including those of earlier releases. Other tools may
// have their own.
func RequestKinds() []string {
	return []string{
		"filesystem.delete", "filesystem.edit", "filesystem.list", "filesystem.mkdir", "filesystem.read", "filesystem.write",
		kindCommand, "exec.run", "network.fetch", "network.send",
		"mcp.prompt_get", "mcp.resource_read", "mcp.tool_call",
	}
}

// CheckKind returns an error for an entry of [Kinds] that probably matches no request: it does not have
// the form of a kind, or it is similar to one of [RequestKinds] but not equal.
func CheckKind(entry string) error {
	if strings.ContainsAny(entry, "* \t,") {
		return fmt.Errorf("%q: write a kind like filesystem.read; filesystem matches all below it", entry)
	}
	known := RequestKinds()
	var families []string
	for _, k := range known {
		family, _, _ := strings.Cut(k, ".")
		families = append(families, family)
	}
	known = append(known, families...)
	entry = strings.TrimSuffix(entry, ".")
	family, _, _ := strings.Cut(entry, ".")
	hint := nearest.Hint(entry, known)
	if slices.Contains(known, entry) || hint == "" && !slices.Contains(families, family) {
		return nil
	}
	return fmt.Errorf("%q: there is no such kind%s", entry, cmp.Or(hint, ": use one of "+strings.Join(RequestKinds(), ", ")))
}
