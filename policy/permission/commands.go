package permission

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// CommandConfig says which commands calls may run. Programs are names, git, or absolute
// paths, /usr/bin/git. In the names of environment variables * stands for any characters.
type CommandConfig struct {
	Root       string      // of relative directories; required with Dirs
	Allowed    []string    // programs; none: all that are not denied
	Denied     []string    // programs, under any path and in any case
	Dirs       []string    // directories in which, or below which, commands may start; none: any
	AllowedEnv []string    // variables that a call may set; none: all that are neither denied nor dangerous
	DeniedEnv  []string    // variables that no call may set
	Outside    tool.Ruling // for what is not allowed; zero: tool.Ask; or tool.Deny
	Code       tool.Ruling // for code passed to an interpreter; zero: tool.Ask; or tool.Allow, tool.Deny
}

// Commands is a policy for requests of the kind shell.command. It asks separately about
// the program, code for an interpreter, the directory, and the environment: permission for
// one covers none of the others.
//
// A program allowed by name must be called by that name, so that it is the one that the
// search path finds; one called by a path must be allowed by that path. Commands asks about
// code for an interpreter (sh -c, python -c), and about commands for programs that start
// others (env, sudo, xargs), even if the program is allowed; also about variables that
// control what a program runs, such as PATH, unless AllowedEnv names them.
type Commands struct {
	cfg  CommandConfig
	root string
	dirs []string
}

var _ tool.Permissions = (*Commands)(nil)

// NewCommands returns the policy. It returns an error if Dirs needs a Root, and for
// invalid rulings and programs.
func NewCommands(c CommandConfig) (*Commands, error) {
	p := &Commands{cfg: c}
	if err := checkRuling(c.Outside); err != nil {
		return nil, fmt.Errorf("command policy: Outside: %w", err)
	}
	if c.Code != tool.Allow {
		if err := checkRuling(c.Code); err != nil {
			return nil, fmt.Errorf("command policy: Code: %w", err)
		}
	}
	for _, name := range slices.Concat(c.Allowed, c.Denied) {
		if strings.ContainsAny(name, `/\`) && !filepath.IsAbs(name) || name == "" {
			return nil, fmt.Errorf("command policy: program %q: use a name or an absolute path", name)
		}
	}
	if len(c.Dirs) > 0 || c.Root != "" {
		root, err := rootOf(c.Root)
		if err != nil {
			return nil, fmt.Errorf("command policy: %w", err)
		}
		p.root, p.dirs = root, absolute(root, c.Dirs)
	}
	return p, nil
}

// Evaluate judges the command of the request.
func (p *Commands) Evaluate(_ context.Context, r tool.Request) (tool.Verdict, error) {
	if r.Kind != kindCommand {
		return tool.Verdict{}, nil
	}
	c, ok := readCommand(r.Target)
	if !ok {
		return deny(CodeUnreadable, "the request names no program"), nil
	}
	return combine(p.program(r, c), p.directory(r, c), p.environment(r, c)), nil
}

func (p *Commands) program(r tool.Request, c command) tool.Verdict {
	name := c.Argv[0]
	if slices.ContainsFunc(p.cfg.Denied, func(d string) bool { return p.isDenied(d, c) }) {
		return deny(CodeCommand, "program %s is denied", name)
	}
	if c.passesCode() && p.cfg.Code != tool.Allow {
		question := ask(KindScript, c.exactly(), content.EscalatedRisk, summary(r))
		return refuse(p.cfg.Code, question, CodeScript, "%s would run code from its arguments", name)
	}
	if len(p.cfg.Allowed) == 0 || slices.ContainsFunc(p.cfg.Allowed, func(a string) bool { return isAllowed(a, name) }) {
		return allow()
	}
	question := ask(kindCommand, c.scope(), content.SensitiveCommand, summary(r))
	return refuse(p.cfg.Outside, question, CodeCommand, "program %s is not allowed", name)
}

// isAllowed compares a program as it is called.
func isAllowed(allowed, name string) bool {
	if filepath.IsAbs(allowed) {
		return filepath.Clean(allowed) == name
	}
	return allowed == name
}

// isDenied recognizes a program under another path, through a link, and started by a
// launcher.
func (p *Commands) isDenied(denied string, c command) bool {
	if slices.Contains(launchers(), base(c.Argv[0])) {
		if slices.ContainsFunc(c.Argv[1:], func(arg string) bool { return sameProgram(denied, arg) }) {
			return true
		}
	}
	name := c.Argv[0]
	if sameProgram(denied, name) {
		return true
	}
	if !strings.Contains(name, "/") {
		return false
	}
	if !filepath.IsAbs(name) {
		name = p.root + separator + c.Cwd + separator + name
	}
	if !filepath.IsAbs(name) {
		return false
	}
	at, err := resolve(name)
	return err != nil || sameProgram(denied, at)
}

func sameProgram(denied, name string) bool {
	if filepath.IsAbs(denied) {
		return strings.EqualFold(filepath.Clean(denied), filepath.Clean(name))
	}
	return strings.EqualFold(denied, path.Base(filepath.ToSlash(name))) || base(denied) == base(name) && denied == base(denied)
}

func (p *Commands) directory(r tool.Request, c command) tool.Verdict {
	if len(p.dirs) == 0 {
		return tool.Verdict{}
	}
	dir := filepath.FromSlash(c.Cwd)
	if !filepath.IsAbs(dir) {
		dir = p.root + separator + dir
	}
	for _, written := range []string{dir, filepath.Clean(dir)} {
		at, err := resolve(written)
		if err != nil {
			return deny(CodeDir, "directory %q cannot be resolved", c.Cwd)
		}
		if slices.ContainsFunc(ends(p.dirs), func(d string) bool { return within(d, at, false) }) {
			continue
		}
		text := fmt.Sprintf("%s: it starts in %s", summary(r), at)
		return refuse(p.cfg.Outside, ask(KindDir, at, content.SensitivePath, text), CodeDir, "commands may not start in %q", c.Cwd)
	}
	return allow()
}

// environment asks about variables with the whole input as the scope: the request has only
// their names, and the values matter.
func (p *Commands) environment(r tool.Request, c command) tool.Verdict {
	var asked []string
	for _, key := range c.Env {
		in := func(patterns []string) bool {
			return slices.ContainsFunc(patterns, func(pattern string) bool { return content.Matches(strings.ToUpper(pattern), strings.ToUpper(key)) })
		}
		switch {
		case in(p.cfg.DeniedEnv):
			return deny(CodeEnv, "environment variable %s is denied", key)
		case in(p.cfg.AllowedEnv):
		case len(p.cfg.AllowedEnv) > 0, in(dangerousEnv()):
			asked = append(asked, key)
		}
	}
	if len(asked) == 0 {
		return tool.Verdict{}
	}
	keys := strings.Join(asked, ", ")
	question := ask(KindEnv, tool.Digest(r.Call.Input), content.SensitiveCommand, summary(r)+": it sets "+keys)
	return refuse(p.cfg.Outside, question, CodeEnv, "setting %s is not allowed", keys)
}
