// Package toolset is the list of tools that our binaries have, what a command line
// lets their calls do, and how a worker shows them to a deployment.
//
// The one idea: a set is some tools that a command line names as one, and [Sets]
// returns all of them as a slice to read. Nothing registers itself.
//
// A program owns its [Flags] and calls [Flags.Open] once, then [Flags.Permissions],
// which it gives to its worker beside the tools, and [Flags.Keep] once it knows where
// outputs are kept; what [Progress] returns belongs to the worker that it is given to.
package toolset

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/fetch"
	"github.com/turnlog/turnlog/tool/fs"
	"github.com/turnlog/turnlog/tool/shell"
)

// Set is some tools that a command line names as one.
type Set struct {
	Name  string
	About string // for people
	Open  func(o Options) ([]tool.Tool, error)
}

// Options are what a command line says about tools.
type Options struct {
	Root       string // the directory that they work in
	AllowWrite bool   // file tools write, too
	ReadFirst  bool   // and change only what they read before

	Shells  int      // how many shells are kept between calls
	Env     []string // KEY=value, more for every command
	Sandbox string   // what commands run in; empty: nothing
	Network bool     // in a sandbox they use the network

	Fetch fetch.Options
}

// Sets lists the tools that our binaries have. A new one is a line here.
func Sets() []Set {
	return []Set{
		{"fs", "list, find, read, search and count files; with --allow-write also write, edit, patch and delete them", openFiles},
		{"shell", "run any command as this user, which --allow-write does not restrain; and what gate does", openShell},
		{"fetch", "read pages and documents of the web, from the hosts that --fetch-allow names", openFetch},
		{gateSet, "run the gates of tasks, as this user; models are not shown it", openGate},
	}
}

func openFiles(o Options) ([]tool.Tool, error) {
	return fs.New(o.Root, fs.Options{Write: o.AllowWrite, ReadFirst: o.ReadFirst})
}

func openShell(o Options) ([]tool.Tool, error) {
	exec, err := shell.New(o.Root, shell.Options{Env: o.Env, Shells: o.Shells, Sandbox: o.Sandbox, Network: o.Network})
	if err != nil {
		return nil, err
	}
	return []tool.Tool{exec}, nil
}

func openFetch(o Options) ([]tool.Tool, error) {
	t, err := fetch.New(o.Fetch)
	if err != nil {
		return nil, err
	}
	return []tool.Tool{t}, nil
}

// gateSet is the set that every worker has whose models run commands anyway.
const gateSet = "gate"

func openGate(o Options) ([]tool.Tool, error) {
	gate, err := engine.NewGateTool(o.Root)
	if err != nil {
		return nil, err
	}
	return []tool.Tool{gate}, nil
}

// Names are those of all sets.
func Names() []string {
	var names []string
	for _, s := range Sets() {
		names = append(names, s.Name)
	}
	return names
}

// About says what each set is, a line for each.
func About() string {
	var b strings.Builder
	for _, s := range Sets() {
		fmt.Fprintf(&b, "\n  %-6s %s", s.Name, s.About)
	}
	return b.String()
}

// Open makes the named tools, a source for each set.
func Open(names []string, o Options) ([]tool.Source, error) {
	if len(names) == 0 {
		return nil, errors.New("name at least one of " + strings.Join(Names(), ", ") + ", or " + noSet)
	}
	if slices.Contains(names, "shell") && !slices.Contains(names, gateSet) {
		names = append(slices.Clone(names), gateSet)
	}
	var sources []tool.Source
	for _, name := range names {
		i := slices.IndexFunc(Sets(), func(s Set) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no set %q: known are %s", name, strings.Join(Names(), ", "))
		}
		tools, err := Sets()[i].Open(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		source, err := tool.NewRegistry(name, tools...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		sources = append(sources, source)
	}
	return sources, nil
}
