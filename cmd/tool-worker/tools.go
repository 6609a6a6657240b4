package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/fs"
	"github.com/turnlog/turnlog/tool/shell"
)

// set is some tools that the command line names as one.
type set struct {
	name  string
	about string
	open  func(o toolOptions) ([]tool.Tool, error)
}

// toolOptions are what the command line says about tools.
type toolOptions struct {
	root       string
	allowWrite bool
}

// sets lists the tools that this binary has. A new one is a line here.
func sets() []set {
	return []set{
		{"fs", "list, find, read, search and count files; with --allow-write also write, edit and delete them", openFiles},
		{"shell", "run any command as this user, which --allow-write does not restrain", openShell},
	}
}

func openFiles(o toolOptions) ([]tool.Tool, error) {
	return fs.New(o.root, fs.Options{Write: o.allowWrite})
}

func openShell(o toolOptions) ([]tool.Tool, error) {
	exec, err := shell.New(o.root, shell.Options{})
	if err != nil {
		return nil, err
	}
	return []tool.Tool{exec}, nil
}

// openSets makes the named tools, a source for each set.
func openSets(names []string, o toolOptions) ([]tool.Source, error) {
	var sources []tool.Source
	for _, name := range names {
		i := slices.IndexFunc(sets(), func(s set) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--tools: there is no set %q: known are %s", name, strings.Join(setNames(), ", "))
		}
		tools, err := sets()[i].open(o)
		if err != nil {
			return nil, fmt.Errorf("--tools %s: %w", name, err)
		}
		source, err := tool.NewRegistry(name, tools...)
		if err != nil {
			return nil, fmt.Errorf("--tools %s: %w", name, err)
		}
		sources = append(sources, source)
	}
	return sources, nil
}

func setNames() []string {
	var names []string
	for _, s := range sets() {
		names = append(names, s.name)
	}
	return names
}

// setList says what each set is, for the help.
func setList() string {
	var b strings.Builder
	for _, s := range sets() {
		fmt.Fprintf(&b, "\n  %-6s %s", s.name, s.about)
	}
	return b.String()
}
