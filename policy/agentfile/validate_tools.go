package agentfile

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool/mcp"
)

func (r *reader) tools(tools []Tool) {
	for i, t := range tools {
		path := at("$.tools", i)
		if t.Name == "" {
			r.report(path, "names no tool: give name, in which * stands for any characters")
		}
		r.word(path+".permission", t.Permission, permissions())
		r.word(path+".effects", t.Effects, effects())
		r.duration(path+".timeout", t.Timeout)
		if t.Route == "" {
			continue
		}
		if _, _, err := content.ParseRoute(t.Route); err != nil {
			r.report(path+".route", "%q: %v", t.Route, err)
		}
	}
}

func (r *reader) servers(servers map[string]Server) {
	before := len(r.problems)
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		s, path := servers[name], "$.mcp."+name
		if !isName(name) {
			r.report("$.mcp", "%q: use 1 to 64 of a-z, 0-9, - and _, a letter or digit first", name)
			continue
		}
		switch {
		case (len(s.Command) > 0) == (s.URL != ""):
			r.report(path, "give a command or a url, one of both")
		case s.URL != "" && len(s.Env) > 0:
			r.report(path+".env", "is for commands: give headers or token")
		case len(s.Command) > 0 && len(s.Headers) > 0:
			r.report(path+".headers", "are for URLs: give env")
		case len(s.Command) > 0 && s.Token != "":
			r.report(path+".token", "is for URLs: give env")
		case s.URL != "":
			r.address(path+".url", s.URL)
		case s.Command[0] == "":
			r.report(path+".command", "names no program")
		}
		r.duration(path+".timeout", s.Timeout)
		r.secrets(path, s)
		r.arguments(path+".command", s.Command)
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

func (r *reader) address(path, text string) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		r.report(path, "%q: use an address that begins with http:// or https://", text)
		return
	}
	if u.User != nil {
		r.report(path, "holds a password: give it in headers, as env:NAME or file:PATH")
	}
	for key := range u.Query() {
		if isSecret(key) && !r.kept {
			r.report(path, "its %s looks like a secret: give it in headers, as env:NAME or file:PATH", key)
		}
	}
}

// secrets reports what looks like a secret and is written down: definitions are kept in
// journals, and shown.
func (r *reader) secrets(path string, s Server) {
	if s.Token != "" && !mcp.IsReference(s.Token) {
		r.report(path+".token", "is no reference: write env:NAME or file:PATH, never the token itself")
	}
	for _, values := range []struct {
		key string
		of  map[string]string
	}{{"headers", s.Headers}, {"env", s.Env}} {
		for _, name := range slices.Sorted(maps.Keys(values.of)) {
			if value := values.of[name]; (isSecret(name) || isKey(value)) && !r.kept && value != "" && !mcp.IsReference(value) {
				r.report(path+"."+values.key+"."+name, "looks like a secret: write env:NAME or file:PATH, never the value itself")
			}
		}
	}
}

// arguments reports what looks like a secret among the arguments of a command: they are
// written down, and everybody on the machine sees them.
func (r *reader) arguments(path string, argv []string) {
	for i, arg := range argv {
		name, value, given := strings.Cut(arg, "=")
		if !given && i+1 < len(argv) {
			value = argv[i+1]
		}
		named := strings.HasPrefix(name, "-") && isSecret(strings.TrimLeft(name, "-")) && value != "" && !strings.HasPrefix(value, "-")
		if (named || isKey(arg)) && !r.kept {
			r.report(at(path, i), "looks like a secret: give it to the command in env, as env:NAME or file:PATH")
		}
	}
}

// isKey reports whether a text has the form of a key that a well-known service hands out.
func isKey(text string) bool {
	return regexp.MustCompile(`\b(sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|xox[abpr]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,})`).MatchString(text)
}

// isSecret reports whether what has such a name is likely to be one.
func isSecret(name string) bool {
	return regexp.MustCompile(`(?i)authorization|cookie|(^|[-_])token$|secret|passw|credential|api[-_]?key|(^|[-_])key$`).MatchString(name)
}

func (r *reader) hooks(hooks []Hook) {
	names := map[string]bool{guardName: true}
	for i, h := range hooks {
		path := at("$.hooks", i)
		if strings.TrimSpace(h.Command) == "" {
			r.report(path, "names no command")
		}
		if len(h.Points) == 0 {
			r.report(path, "stands nowhere: give points")
		}
		for j, p := range h.Points {
			here := at(path+".points", j)
			r.word(here, p, points())
			if len(h.Tools) > 0 && slices.Contains(points(), p) && !extension.Point(p).ConcernsCall() {
				r.report(here, "tools are for %s and %s: at %s there is no call", extension.PreToolExecution, extension.PostToolExecution, p)
			}
		}
		for j, pattern := range h.Tools {
			if pattern == "" {
				r.report(at(path+".tools", j), "names no tool: give a name, in which * stands for any characters")
			}
		}
		r.duration(path+".timeout", h.Timeout)
		switch name := h.nameAt(i); {
		case names[name]:
			r.report(path, "two hooks are called %s: give it another name", name)
		default:
			names[name] = true
		}
	}
}

func (r *reader) permissions(p *permission.Policy) {
	if p == nil {
		return
	}
	before := len(r.problems)
	if p.Paths != nil {
		r.word("$.permissions.paths.outside", p.Paths.Outside, permission.Outsides())
	}
	if p.Commands != nil {
		r.word("$.permissions.commands.outside", p.Commands.Outside, permission.Outsides())
		r.word("$.permissions.commands.code", p.Commands.Code, permission.Codes())
	}
	if p.Servers != nil {
		r.word("$.permissions.servers.outside", p.Servers.Outside, permission.Outsides())
	}
	lists := listsOf(p)
	for _, path := range slices.Sorted(maps.Keys(lists)) {
		if i := slices.Index(lists[path], ""); i >= 0 {
			r.report(at("$.permissions."+path, i), "is empty")
		}
	}
	if p.Kinds != nil && !r.kept {
		for key, kinds := range map[string][]string{"allow": p.Kinds.Allow, "ask": p.Kinds.Ask, "deny": p.Kinds.Deny} {
			for i, kind := range kinds {
				if err := permission.CheckKind(kind); err != nil && kind != "" {
					r.report(at("$.permissions.kinds."+key, i), "%v", err)
				}
			}
		}
	}
	if len(r.problems) > before {
		return
	}
	made, err := p.In(".") // which root counts is for whoever holds it to say
	switch {
	case err != nil:
		r.report("$.permissions", "%v", err)
	case made == nil:
		r.report("$.permissions", "says nothing: give paths, commands, servers or kinds")
	}
}

func listsOf(p *permission.Policy) map[string][]string {
	all := make(map[string][]string)
	if x := p.Paths; x != nil {
		all["paths.protect"], all["paths.read_only"], all["paths.allow"] = x.Protect, x.ReadOnly, x.Allow
	}
	if x := p.Commands; x != nil {
		all["commands.allow"], all["commands.ask"], all["commands.deny"] = x.Allow, x.Ask, x.Deny
		all["commands.dirs"], all["commands.allow_env"], all["commands.deny_env"] = x.Dirs, x.AllowEnv, x.DenyEnv
	}
	if x := p.Servers; x != nil {
		all["servers.trust"], all["servers.deny"], all["servers.scopes"] = x.Trust, x.Deny, x.Scopes
	}
	if x := p.Kinds; x != nil {
		all["kinds.allow"], all["kinds.ask"], all["kinds.deny"] = x.Allow, x.Ask, x.Deny
	}
	return all
}
