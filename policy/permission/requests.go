package permission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/internal/nearest"
)

// RequestKinds returns the kinds of requests of Turnlog's tools. Other tools may have their
// own.
func RequestKinds() []string {
	return []string{
		"filesystem.delete", "filesystem.edit", "filesystem.list", "filesystem.mkdir", "filesystem.read", "filesystem.write",
		kindCommand, "exec.run", "network.fetch", "network.send",
		"mcp.prompt_get", "mcp.resource_read", "mcp.tool_call",
	}
}

// CheckKind returns an error for an entry of [Kinds] that probably matches no request: it is
// not written like a kind, begins like one of [RequestKinds] but is none of them, or looks
// like a misspelled one.
func CheckKind(entry string) error {
	if strings.ContainsAny(entry, "* \t,") {
		return fmt.Errorf("%q: write a kind like filesystem.read; filesystem matches all below it", entry)
	}
	entry = strings.TrimSuffix(entry, ".")
	family, _, inner := strings.Cut(entry, ".")
	var families, siblings []string
	for _, k := range RequestKinds() {
		f, _, _ := strings.Cut(k, ".")
		families = append(families, f)
		if f == family {
			siblings = append(siblings, k)
		}
	}
	hint := nearest.Hint(entry, slices.Concat(RequestKinds(), families))
	switch {
	case len(siblings) > 0 && inner && !slices.Contains(siblings, entry):
		return fmt.Errorf("%q: there is no such kind: the kinds of %s are %s", entry, family, strings.Join(siblings, ", "))
	case len(siblings) == 0 && hint != "":
		return fmt.Errorf("%q: there is no such kind%s", entry, hint)
	}
	return nil
}
