package toolset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/nearest"
	"github.com/turnlog/turnlog/tool/output"
	"github.com/turnlog/turnlog/tool/skill"
)

// toolNames lists every tool that the binaries can show to a model, under any flags, except tools of
// MCP servers and tools that delegate.
func toolNames() []string {
	return []string{
		"fs_count", "fs_delete", "fs_find", "fs_list_directory", "fs_patch", "fs_read_file",
		"fs_replace_in_file", "fs_search", "fs_write_file", "http_fetch", "shell_exec",
		output.ReadTool, skill.Tool,
	}
}

// CheckPattern returns an error for a misspelled pattern: one that matches no tool of
// [toolNames] but is close to one, or is the name of a set. Other patterns may be for
// tools that a worker adds.
func CheckPattern(pattern string) error {
	names := toolNames()
	fits := func(name string) bool { return content.Matches(pattern, name) }
	if slices.ContainsFunc(names, fits) {
		return nil
	}
	if i := slices.Index(Names(), pattern); i >= 0 {
		if family := Sets()[i].Pattern; family != "" {
			return fmt.Errorf("%q is a set of tools, not a tool: write %q", pattern, family)
		}
		return fmt.Errorf("%q is a set of tools, not a tool, and models do not see its tools", pattern)
	}
	near := names
	if strings.Contains(pattern, "*") {
		for i, name := range near {
			family, _, _ := strings.Cut(name, "_")
			near[i] = family + "_*"
		}
	}
	if hint := nearest.Hint(pattern, near); hint != "" {
		return fmt.Errorf("%q: there is no such tool%s", pattern, hint)
	}
	return nil
}
