package permission

import (
	"encoding/json"
	"path"
	"path/filepath"
	"strings"

	"github.com/turnlog/turnlog/tool"
)

// ScopeOf says what a question about a request is about, so that an approval for
// always opens nothing else. It is the rule for policies that name no scope:
//
//   - a command: its program as it was called; where that depends on the directory,
//     with the directory; with an interpreter or with a program that starts others,
//     exactly this command in this directory
//   - the call as such ([KindCall]) of any other tool: the tool, so nothing more
//   - a path: that path
//   - anything else with a target: that target
func ScopeOf(kind string, r tool.Request) string {
	if r.Kind == kindCommand {
		if c, ok := readCommand(r.Target); ok {
			return c.scope()
		}
	}
	switch {
	case kind == KindCall, len(r.Target) == 0:
		return ""
	case strings.HasPrefix(r.Kind, kindsPath):
		if paths := readPaths(r.Target); len(paths) == 1 {
			return path.Clean(filepath.ToSlash(paths[0]))
		}
	}
	return tool.Digest(r.Target)
}

// readPaths lists the paths that a request is about.
func readPaths(target json.RawMessage) []string {
	var t struct {
		Path  string   `json:"path"`
		Paths []string `json:"paths"`
		From  string   `json:"from"`
		To    string   `json:"to"`
	}
	if json.Unmarshal(target, &t) != nil {
		return nil
	}
	out := t.Paths
	for _, p := range []string{t.Path, t.From, t.To} {
		if p != "" {
			out = append(out, p)
		}
	}
	return out
}
