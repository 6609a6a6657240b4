package toolset

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

type policyFlags struct {
	paths    permission.PathRules
	commands permission.CommandRules
}

type policyFlag struct {
	name   string
	set    string // the set that it applies to
	values *[]string
	check  func(value string) error
	usage  string
}

// all lists the flags in the order of the help.
func (f *policyFlags) all() []policyFlag {
	p, c := &f.paths, &f.commands
	return []policyFlag{
		{"protect", "fs", &p.Protect, checkPath, "`path` that file tools cannot access, including everything in it; repeatable"},
		{"read-only", "fs", &p.ReadOnly, checkPath, "`path` that file tools can only read, including everything in it; repeatable"},
		{"allow-root", "fs", &p.Allow, checkPath, "`directory` that file tools may use without approval; other directories need approval; repeatable"},
		{"allow-command", "shell", &c.Allow, checkProgram, "`program`, by name or absolute path, that may run without approval; * allows every program given by name; others need approval; repeatable"},
		{"ask-command", "shell", &c.Ask, checkProgram, "`program` that needs approval; without --allow-command, so do all programs that do more than read; repeatable"},
		{"deny-command", "shell", &c.Deny, checkProgram, "`program` that is denied in command lines (a filter, not a sandbox); without --allow-command, all programs that do more than read need approval; repeatable"},
		{"allow-env", "shell", &c.AllowEnv, checkVariable, "`variable` that calls may set without approval, where * matches any characters; others need approval; default with one of the -command flags: harmless ones such as CI; repeatable"},
	}
}

func (f *policyFlags) register(fs *pflag.FlagSet) {
	for _, p := range f.all() {
		fs.StringArrayVar(p.values, p.name, nil, p.usage)
		about(fs, p.set, p.name)
	}
}

func (f *policyFlags) given() []string {
	var out []string
	for _, p := range f.all() {
		for _, value := range *p.values {
			out = append(out, p.name+"="+value)
		}
	}
	return out
}

func checkPath(path string) error {
	if path == "" {
		return errors.New("empty path: name a path; relative paths are relative to --root")
	}
	return nil
}

func checkProgram(name string) error {
	if name == "" || strings.ContainsAny(name, `/\`) && !filepath.IsAbs(name) {
		return errors.New("use the name of a program or its absolute path")
	}
	return nil
}

func checkVariable(key string) error {
	if key == "" || strings.ContainsAny(key, "= \t") {
		return errors.New("use the name of a variable, without a value")
	}
	return nil
}

func (f *policyFlags) permissions(root string) (tool.Permissions, error) {
	listed := map[string]string{} // the flag that lists a program
	for _, p := range f.all() {
		for _, value := range *p.values {
			if err := p.check(value); err != nil {
				return nil, fmt.Errorf("--%s %q: %w", p.name, value, err)
			}
			if p.values == &f.commands.AllowEnv || p.set != "shell" {
				continue
			}
			if other := listed[value]; other != "" && other != p.name {
				return nil, fmt.Errorf("--%s %s and --%s %s: use only one of them", other, value, p.name, value)
			}
			listed[value] = p.name
		}
	}
	for _, dir := range f.paths.Allow {
		at := dir
		if !filepath.IsAbs(at) {
			at = filepath.Join(root, at)
		}
		if info, err := os.Stat(at); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("--allow-root %s: there is no directory %s: create it or name another one", dir, at)
		}
	}
	var policy permission.Policy
	if p := &f.paths; len(p.Protect)+len(p.ReadOnly)+len(p.Allow) > 0 {
		policy.Paths = p
	}
	if c := &f.commands; len(c.Allow)+len(c.Deny)+len(c.Ask)+len(c.AllowEnv) > 0 {
		policy.Commands = c
	}
	return policy.In(root)
}
