package permission

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// CommandRules say which commands calls may run. A program is a name such as git, or an absolute
// path such as /usr/bin/git; * in Allow is any program on the search path. In the names of
// environment variables, * matches any characters.
type CommandRules struct {
	Allow    []string `json:"allow,omitempty"`     // programs; none, with Ask or Deny: programs that only read files and print
	Ask      []string `json:"ask,omitempty"`       // programs to ask about even if they are allowed
	Deny     []string `json:"deny,omitempty"`      // programs
	Dirs     []string `json:"dirs,omitempty"`      // directories in which, or below which, commands may start; none: any
	AllowEnv []string `json:"allow_env,omitempty"` // variables that a call may set; none: variables that are known to be harmless
	DenyEnv  []string `json:"deny_env,omitempty"`  // variables that no call may set
	Outside  string   `json:"outside,omitempty"`   // for everything else: ask (the default) or deny
	Code     string   `json:"code,omitempty"`      // for code in an interpreter's arguments: allow, ask (the default) or deny
}

// Commands is a policy for requests of the kind shell.command. It asks separately about
// the command, code for an interpreter, the directory, and the environment: permission for
// one covers none of the others, and no other command.
//
// A program allowed by name must be called by that name, so that the search path finds it. A
// program called by a path must be allowed by that path. Programs to ask about and denied
// programs are recognized under any path, in upper or lower case, through a link, and as an
// argument of a launcher.
//
// Commands asks about code for an interpreter (sh -c, python -c) and about arguments that are
// commands (env, xargs, git -c, tar --to-command), even if the program is allowed. It also asks
// about variables that are not known to be harmless, unless AllowEnv names them.
//
// This is a filter on the command line that a model writes, not a sandbox. An allowed program
// does what its files and configuration say, and the model may have written those: a build runs
// the code that it builds, and a version control system runs its hooks and aliases. To confine
// what commands do, run them in a sandbox.
type Commands struct {
	rules CommandRules
	root  string
	dirs  []string
}

var _ tool.Permissions = (*Commands)(nil)

// NewCommands returns the policy for commands that start in a folder. It returns an error
// for invalid rules, and for Dirs without a root.
func NewCommands(root string, r CommandRules) (*Commands, error) {
	err := errors.Join(checkWord("outside", r.Outside, wordAsk, wordDeny), checkWord("code", r.Code, wordAllow, wordAsk, wordDeny))
	for _, name := range slices.Concat(r.Allow, r.Ask, r.Deny) {
		if strings.ContainsAny(name, `/\`) && !filepath.IsAbs(name) || name == "" {
			err = errors.Join(err, fmt.Errorf("program %q: use a name or an absolute path", name))
		}
	}
	p := &Commands{rules: r}
	if err == nil && (len(r.Dirs) > 0 || root != "") {
		p.root, err = rootOf(root)
		p.dirs = absolute(p.root, r.Dirs)
	}
	if err != nil {
		return nil, fmt.Errorf("command policy: %w", err)
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
	return combine(p.program(r, c), p.directory(r, c), p.environment(r, c), p.asks(r, c)), nil
}

func (p *Commands) program(r tool.Request, c command) tool.Verdict {
	name := c.Argv[0]
	if p.recognizes(p.rules.Deny, c) {
		return deny(CodeCommand, "program %s is denied", name)
	}
	if c.passesCode() && p.rules.Code != wordAllow {
		question := ask(KindScript, c.scope(), content.EscalatedRisk, summary(r))
		return refuse(p.rules.Code, question, CodeScript, "%s gets code or a command in its arguments", name)
	}
	if p.isAllowed(name) || len(p.rules.Allow) == 0 && p.recognizes(p.rules.Ask, c) {
		return allow()
	}
	return refuse(p.rules.Outside, aboutCommand(r, c), CodeCommand, "program %s is not allowed", name)
}

// asks asks about the programs of Ask.
func (p *Commands) asks(r tool.Request, c command) tool.Verdict {
	if p.recognizes(p.rules.Ask, c) {
		return aboutCommand(r, c)
	}
	return tool.Verdict{}
}

func aboutCommand(r tool.Request, c command) tool.Verdict {
	return ask(kindCommand, c.scope(), content.SensitiveCommand, summary(r))
}

// isAllowed reports whether a program may run under the name by which it is called.
func (p *Commands) isAllowed(name string) bool {
	named := !strings.ContainsAny(name, `/\`)
	if len(p.rules.Allow) == 0 {
		return len(p.rules.Ask)+len(p.rules.Deny) == 0 || named && slices.Contains(readers(), name)
	}
	return slices.ContainsFunc(p.rules.Allow, func(allowed string) bool {
		if filepath.IsAbs(allowed) {
			return filepath.Clean(allowed) == name
		}
		return allowed == name || allowed == "*" && named
	})
}

// recognizes reports whether the command is one of the programs under any path, or starts
// one of them.
func (p *Commands) recognizes(programs []string, c command) bool {
	names := c.Argv[:1]
	if l, _ := launcherOf(c.Argv[0]); l.code == "*" {
		names = c.Argv
	}
	if name := c.Argv[0]; len(programs) > 0 && strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = p.root + separator + c.Cwd + separator + name
		}
		if filepath.IsAbs(name) {
			at, err := resolve(name)
			if err != nil {
				return true
			}
			names = append(slices.Clone(names), at)
		}
	}
	return slices.ContainsFunc(programs, func(listed string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return sameProgram(listed, name) })
	})
}

func sameProgram(listed, name string) bool {
	if filepath.IsAbs(listed) {
		return strings.EqualFold(filepath.Clean(listed), filepath.Clean(name))
	}
	return strings.EqualFold(listed, path.Base(filepath.ToSlash(name))) || base(listed) == base(name) && listed == base(listed)
}

func (p *Commands) directory(r tool.Request, c command) tool.Verdict {
	if len(p.dirs) == 0 {
		return tool.Verdict{}
	}
	places, err := leads(p.root, c.Cwd, resolve)
	if err != nil {
		return deny(CodeDir, "directory %q cannot be resolved", c.Cwd)
	}
	dirs := ends(p.dirs)
	for _, at := range places {
		if !slices.ContainsFunc(dirs, func(d string) bool { return within(d, at, false) }) {
			text := fmt.Sprintf("%s: it starts in %s", summary(r), at)
			return refuse(p.rules.Outside, ask(KindDir, at, content.SensitivePath, text), CodeDir, "commands cannot start in %q", c.Cwd)
		}
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
		case in(p.rules.DenyEnv):
			return deny(CodeEnv, "environment variable %s is denied", key)
		case in(p.rules.AllowEnv):
		case len(p.rules.AllowEnv) > 0, !in(harmlessEnv()):
			asked = append(asked, key)
		}
	}
	if len(asked) == 0 {
		return tool.Verdict{}
	}
	keys := strings.Join(asked, ", ")
	question := ask(KindEnv, tool.Digest(r.Call.Input), content.SensitiveCommand, summary(r)+": it sets "+keys)
	return refuse(p.rules.Outside, question, CodeEnv, "setting %s is not allowed", keys)
}
