package permission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/internal/nearest"
)

// RequestKinds are the kinds of what the tools that come with Turnlog ask for. Tools of
// others may have kinds of their own.
func RequestKinds() []string {
	return []string{
		"filesystem.delete", "filesystem.edit", "filesystem.list", "filesystem.mkdir", "filesystem.read", "filesystem.write",
		kindCommand, "exec.run", "network.fetch", "network.send",
		"mcp.prompt_get", "mcp.resource_read", "mcp.tool_call",
	}
}

// CheckKind returns an error for an entry of [Kinds] that fits no request, as far as that
// can be known: one that is not written like a kind, that begins like a kind of
// [RequestKinds] and is none of them, or is but a slip away from one.
func CheckKind(entry string) error {
	if strings.ContainsAny(entry, "* \t,") {
		return fmt.Errorf("%q: write a kind like filesystem.read; one like filesystem fits all below it", entry)
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
		return fmt.Errorf("%q: no request is of that kind: of %s there are %s", entry, family, strings.Join(siblings, ", "))
	case len(siblings) == 0 && hint != "":
		return fmt.Errorf("%q: no request is of that kind%s", entry, hint)
	}
	return nil
}
