package agentfile

import (
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/mcp"
)

const guardName = "guardrail" // the guardrails' hook in the journal

// validate reports problems that the schema cannot express.
func (r *reader) validate(d *Definition) {
	if err := checkName(d.Name); err != nil {
		r.report("$.name", "%v", err)
	}
	if i := slices.Index(d.Agents, d.Name); i >= 0 {
		r.report(at("$.agents", i), "%s would delegate to itself", d.Name)
	}
	r.servers(d.MCP)
	r.hooks(d.Hooks)
	if _, err := d.Permissions.In("."); err != nil {
		r.report("$.permissions", "%v", err)
	}
	if o := d.Output; o != nil {
		raw, err := json.Marshal(o.Schema)
		if err == nil {
			err = engine.CheckSchema(raw)
		}
		if err != nil {
			r.report("$.output.schema", "%v", err)
		}
	}
	r.compare(d)
}

func (r *reader) servers(servers map[string]Server) {
	before := len(r.problems)
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		r.secrets("$.mcp."+name, servers[name])
	}
	if len(r.problems) > before {
		return
	}
	all, err := Servers(&Definition{MCP: servers})
	if err == nil {
		err = mcp.Config{Servers: all}.Check()
	}
	if err != nil {
		r.report("$.mcp", "%v", err)
	}
}

// secrets reports values that look like secrets: journals keep definitions, and
// programs show them.
func (r *reader) secrets(path string, s Server) {
	const advice = "looks like a secret: write env:NAME or file:PATH instead"
	for key, values := range map[string]map[string]string{"headers": s.Headers, "env": s.Env} {
		for name, value := range values {
			if (namesSecret(name) || isKey(value)) && value != "" && !tool.IsReference(value) {
				r.report(path+"."+key+"."+name, advice)
			}
		}
	}
	if u, err := url.Parse(s.URL); err == nil {
		if u.User != nil {
			r.report(path+".url", "holds a password: give it in headers, as env:NAME or file:PATH")
		}
		for name := range u.Query() {
			if namesSecret(name) {
				r.report(path+".url", "its %s looks like a secret: give it in headers, as env:NAME or file:PATH", name)
			}
		}
	}
	for i, arg := range s.Command {
		name, value, given := strings.Cut(arg, "=")
		if !given && i+1 < len(s.Command) {
			value = s.Command[i+1]
		}
		named := strings.HasPrefix(name, "-") && namesSecret(strings.TrimLeft(name, "-")) && value != "" && !strings.HasPrefix(value, "-")
		if named || isKey(arg) {
			r.report(at(path+".command", i), "looks like a secret: pass it to the command in env, as env:NAME or file:PATH")
		}
	}
}

// isKey reports whether a text has the form of a well-known service's key.
func isKey(text string) bool {
	return regexp.MustCompile(`\b(sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|xox[abpr]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,})`).MatchString(text)
}

// namesSecret reports whether a value of that name is probably a secret.
func namesSecret(name string) bool {
	return regexp.MustCompile(`(?i)authorization|cookie|(^|[-_])token$|secret|passw|credential|api[-_]?key|(^|[-_])key$`).MatchString(name)
}

func (r *reader) hooks(hooks []Hook) {
	names := map[string]bool{guardName: true}
	for i, h := range hooks {
		path := at("$.hooks", i)
		for j, p := range h.Points {
			if len(h.Tools) > 0 && !extension.Point(p).ConcernsCall() {
				r.report(at(path+".points", j), "tools are for %s and %s: there is no call at %s", extension.PreToolExecution, extension.PostToolExecution, p)
			}
		}
		name := h.nameAt(i)
		if names[name] {
			r.report(path, "two hooks are called %s: give one another name", name)
		}
		names[name] = true
	}
}
