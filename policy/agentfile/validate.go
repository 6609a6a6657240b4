package agentfile

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/internal/nearest"
)

// validate reports what the kinds of values alone do not rule out.
func (r *reader) validate(d *Definition) {
	if !isName(d.Name) {
		r.report("$.name", "%q: use 1 to 64 of a-z, 0-9, - and _, a letter or digit first%s", d.Name, asName(d.Name))
	}
	r.word("$.on_busy", d.OnBusy, onBusy())
	for i, m := range d.Fallback {
		if m == "" {
			r.report(at("$.fallback", i), "names no model")
		}
	}
	if len(d.Fallback) > 0 && d.Model == "" && !r.isBad("$.model") {
		r.report("$.fallback", "there is no model to fall back from: give model too")
	}
	r.tools(d.Tools)
	r.servers(d.MCP)
	r.agents(d)
	r.limits("$.limits", d.Limits)
	r.limits("$.session_limits", d.SessionLimits)
	r.context(d.Context)
	if d.Approvals != nil {
		r.duration("$.approvals.ttl", d.Approvals.TTL)
	}
	r.compaction(d.Compaction)
	r.guardrails(d.Guardrails)
	r.hooks(d.Hooks)
	r.permissions(d.Permissions)
	r.results(d)
	r.compare(d)
}

// results checks what has to do with what comes of the agent's work.
func (r *reader) results(d *Definition) {
	if g := d.Gate; g != nil {
		if strings.TrimSpace(g.Command) == "" {
			r.report("$.gate", "names no command")
		}
	}
	if m := d.Memory; m != nil {
		r.word("$.memory.scope", m.Scope, scopes())
		r.duration("$.memory.ttl", m.TTL)
	}
	if o := d.Output; o != nil {
		r.schema(o)
	}
	if c := d.Cache; c != nil {
		r.word("$.cache.mode", c.Mode, cacheModes())
		r.word("$.cache.retention", c.Retention, retentions())
	}
}

func (r *reader) schema(o *Output) {
	if o.Schema == nil {
		if len(r.problems) == 0 {
			r.report("$.output", "names no schema: give schema or schema_file")
		}
		return
	}
	raw, err := json.Marshal(o.Schema)
	if err == nil {
		err = engine.CheckSchema(raw)
	}
	if err != nil {
		r.report("$.output.schema", "%v", err)
	}
}

func (r *reader) agents(d *Definition) {
	for i, name := range d.Agents {
		switch {
		case !isName(name):
			r.report(at("$.agents", i), "%q is not the name of an agent", name)
		case name == d.Name:
			r.report(at("$.agents", i), "%s would delegate to itself", name)
		case slices.Index(d.Agents, name) < i:
			r.report(at("$.agents", i), "%s is named twice", name)
		}
	}
}

func (r *reader) limits(path string, l *Limits) {
	if l == nil {
		return
	}
	r.duration(path+".wall_clock", l.WallClock)
}

func (r *reader) compaction(c *Compaction) {
	const path = "$.compaction"
	if c == nil {
		return
	}
	switch {
	case c.Items == 0 && c.Window == 0:
		r.report(path, "never begins: give items, window or both")
	case c.Share != 0 && c.Window == 0:
		r.report(path+".share", "is a share of window: give that too")
	}
	if len(c.Steps) == 0 {
		r.report(path, "does nothing: give steps")
	}
	for i, s := range c.Steps {
		r.step(at(path+".steps", i), s)
	}
}

func (r *reader) step(path string, s Step) {
	set := 0
	for _, given := range []bool{
		s.DropReasoning, s.DropFailedResults, s.KeepItems != 0, s.KeepTurns != 0, s.KeepTokens != 0, s.Summarise != nil,
	} {
		if given {
			set++
		}
	}
	if set != 1 {
		r.report(path, "%d strategies: a step is exactly one, begin each with a dash of its own", set)
	}
}

func (r *reader) guardrails(g *Guardrails) {
	if g == nil {
		return
	}
	if len(g.Input)+len(g.Output)+len(g.Results) == 0 {
		r.report("$.guardrails", "checks nothing: give input, output or results")
	}
	r.checks("$.guardrails.input", g.Input)
	r.checks("$.guardrails.output", g.Output)
	r.checks("$.guardrails.results", g.Results)
}

func (r *reader) checks(path string, checks []Check) {
	for i, c := range checks {
		here := at(path, i)
		if (c.MaxLength != 0) == (len(c.Deny) > 0) {
			r.report(here, "give max_length or deny, one of both")
		}
		for j, expr := range c.Deny {
			if _, err := regexp.Compile(expr); err != nil {
				r.report(at(here+".deny", j), "%v", err)
			}
		}
	}
}

func (r *reader) word(path, word string, words []string) {
	if word != "" && !slices.Contains(words, word) {
		last := len(words) - 1
		r.report(path, "%q: use %s or %s%s", word, strings.Join(words[:last], ", "), words[last], nearest.Hint(word, words))
	}
}

func (r *reader) duration(path, text string) {
	if _, err := parseDuration(text); err != nil {
		r.report(path, "%q: %v", text, err)
	}
}

// context checks what the agent is told of the folder that it works in.
func (r *reader) context(c *Context) {
	if c == nil {
		return
	}
	r.word("$.context.agents_md", c.AgentsMD, agentsMD())
	if r.kept {
		return
	}
	for key, folders := range map[string][]string{"skills": c.Skills, "specs": c.Specs} {
		for i, f := range folders {
			if !isBelow(f) {
				r.report(at("$.context."+key, i), "%q: use a folder in the one that the agent works in, as a relative path without ..", f)
			}
		}
	}
}

// isBelow reports whether a path leads to something in the folder that it begins in.
func isBelow(name string) bool {
	return name != "" && fs.ValidPath(path.Clean(strings.ReplaceAll(name, `\`, "/")))
}

func at(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
