package permission

import (
	"encoding/json"
	"path"
	"path/filepath"
	"strings"

	"github.com/turnlog/turnlog/tool"
)

// scopeOf returns the scope of a question about a request, so that a permanent approval
// covers nothing else. It applies to policies that set no scope:
//
//   - a command: exactly this command, in this directory, with these variables
//   - the call itself ([KindCall]) of a tool whose input determines what it does: that input,
//     which a node also knows
//   - the call itself of any other tool: nothing more than the tool
//   - a path: that path
//   - anything else with a target: that target
func scopeOf(kind string, r tool.Request) string {
	if kind == KindCall && r.Spec.Exact {
		return tool.Digest(r.Call.Input)
	}
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
