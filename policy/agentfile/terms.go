package agentfile

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/internal/hostenv"
	"github.com/turnlog/turnlog/tool"
)

// Terms returns the agent's overrides of what its tools declare, for [tool.Under]; nil:
// none.
func (d *Definition) Terms() []tool.Terms {
	plain := func(t Tool) bool {
		return t.Effects == "" && t.Exclusive == nil && t.Timeout == "" && t.MaxOutput == 0
	}
	if !slices.ContainsFunc(d.Tools, func(t Tool) bool { return !plain(t) }) {
		return nil
	}
	all := make([]tool.Terms, len(d.Tools)) // the first match counts, even if it overrides nothing
	for i, t := range d.Tools {
		all[i] = tool.Terms{Tool: t.Name, Exclusive: t.Exclusive, Timeout: span(t.Timeout), MaxOutput: t.MaxOutput}
		if t.Effects != "" {
			e := content.Effects(t.Effects)
			if t.Effects == "none" {
				e = content.Once
			}
			all[i].Effects = &e
		}
	}
	return all
}

// commands returns the agent's hooks. They start in folder, where the agent files are. TURNLOG_HOOK_ROOT
// is root, where the agent works; the rest of their environment is the same as for commands of tools.
func (d *Definition) commands(folder, root string) ([]extension.Hook, error) {
	if len(d.Hooks) == 0 {
		return nil, nil
	}
	env := append(hostenv.Base(), "TURNLOG_HOOK_AGENT="+d.Name)
	if root != "" {
		abs, err := filepath.Abs(root)
		if err != nil {
			return nil, fmt.Errorf("agent %s: hooks: %w", d.Name, err)
		}
		env = append(env, "TURNLOG_HOOK_ROOT="+abs)
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

// nameAt returns the name of the hook at an index.
func (h Hook) nameAt(i int) string { return cmp.Or(h.Name, fmt.Sprintf("hook_%d", i+1)) }
