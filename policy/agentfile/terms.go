package agentfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/internal/hostenv"
	"github.com/turnlog/turnlog/tool"
)

// Terms are what the agent says of its tools in place of what they declare, for
// [tool.Under]; nil: nothing.
func (d *Definition) Terms() []tool.Terms {
	plain := func(t Tool) bool {
		return t.Effects == "" && t.Exclusive == nil && t.Timeout == "" && t.MaxOutput == 0
	}
	if !slices.ContainsFunc(d.Tools, func(t Tool) bool { return !plain(t) }) {
		return nil
	}
	all := make([]tool.Terms, len(d.Tools)) // the first entry that fits a tool counts, also if it says nothing
	for i, t := range d.Tools {
		all[i] = tool.Terms{Tool: t.Name, Exclusive: t.Exclusive, Timeout: span(t.Timeout), MaxOutput: t.MaxOutput}
		if t.Effects != "" {
			e := content.Effects(t.Effects)
			if t.Effects == none {
				e = content.Once
			}
			all[i].Effects = &e
		}
	}
	return all
}

// policy is what the agent's calls may do, for the workers that run them; nil: nothing is
// said.
func (d *Definition) policy() (json.RawMessage, error) {
	if d.Permissions == nil {
		return nil, nil
	}
	raw, err := json.Marshal(d.Permissions)
	if err != nil {
		return nil, fmt.Errorf("agent %s: permissions: %w", d.Name, err)
	}
	return raw, nil
}

// Commands are the agent's hooks. They begin in a folder, which is to be that of the agent
// files, and find the one that the agent works in as TURNLOG_ROOT; of the process's
// environment they see what every command of tools does.
func (d *Definition) Commands(folder, root string) ([]extension.Hook, error) {
	if len(d.Hooks) == 0 {
		return nil, nil
	}
	env := append(hostenv.Base(), "TURNLOG_AGENT="+d.Name)
	if root != "" {
		abs, err := filepath.Abs(root)
		if err != nil {
			return nil, fmt.Errorf("agent %s: hooks: %w", d.Name, err)
		}
		env = append(env, "TURNLOG_ROOT="+abs)
	}
	var out []extension.Hook
	for i, h := range d.Hooks {
		c := extension.HookCommand{
			Name: h.nameAt(i), Tools: h.Tools, Argv: []string{"sh", "-c", h.Command}, Dir: folder, Env: env, Timeout: span(h.Timeout),
		}
		for _, p := range h.Points {
			c.Points = append(c.Points, extension.Point(p))
		}
		made, err := extension.NewHookCommand(c)
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", d.Name, err)
		}
		if h.FailOpen {
			made = extension.FailOpen(made)
		}
		out = append(out, made)
	}
	return out, nil
}

// nameAt is the name of the hook at an index.
func (h Hook) nameAt(i int) string { return cmp.Or(h.Name, fmt.Sprintf("hook_%d", i+1)) }
