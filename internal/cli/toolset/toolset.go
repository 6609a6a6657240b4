// Package toolset lists the tools of our binaries, their flags, and the policy that the
// flags set.
//
// The one idea: a set is a group of tools that a command line enables by one name, and
// [Sets] returns all of them as a slice. Nothing registers itself.
//
// A program registers its [Flags] and calls [Flags.Start] once. It passes
// [Flags.Permissions] and [Tools.Sources] to its worker.
package toolset

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/fetch"
	"github.com/turnlog/turnlog/tool/fs"
	"github.com/turnlog/turnlog/tool/shell"
	"github.com/turnlog/turnlog/worker/task"
)

// Set is a group of tools that a command line enables by one name.
type Set struct {
	Name  string
	About string // for people
	Open  func(o Options) ([]tool.Tool, error)
}

// Options configure the tools.
type Options struct {
	Root       string // the directory that they work in
	AllowWrite bool   // file tools may write
	ReadFirst  bool   // and change only files that they have read

	Shells  int      // how many shells are kept between calls
	Env     []string // KEY=value, added to every command's environment
	Sandbox string   // what commands run in; empty: none
	Network bool     // allow the network in a sandbox

	Fetch fetch.Options
}

// Sets lists the sets of our binaries. To add one, add a line.
func Sets() []Set {
	return []Set{
		{"fs", "list, find, read, search and count files; with --allow-write also write, edit, patch and delete them", openFiles},
		{"shell", "run any command as this user, which --allow-write does not limit; includes gate", openShell},
		{"fetch", "read from the web, from the hosts in --fetch-allow", openFetch},
		{gateSet, "run the verifiers of tasks as this user; models do not see it", openGate},
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

// gateSet runs verifiers. A worker that can run commands always has it.
const gateSet = "gate"

func openGate(o Options) ([]tool.Tool, error) {
	gate, err := engine.NewVerifierTool(o.Root)
	if err != nil {
		return nil, err
	}
	return []tool.Tool{gate}, nil
}

// Names lists the names of all sets.
func Names() []string {
	var names []string
	for _, s := range Sets() {
		names = append(names, s.Name)
	}
	return names
}

// About describes each set on one line.
func About() string {
	var b strings.Builder
	for _, s := range Sets() {
		fmt.Fprintf(&b, "\n  %-6s %s", s.Name, s.About)
	}
	return b.String()
}

// open opens the named sets, as one source each.
func open(names []string, o Options) ([]tool.Source, error) {
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

// Progress returns a worker's callback that publishes the progress of running tools.
func Progress(live *jetstream.Live, log *zap.Logger) func(task.Task, string, float64) {
	return func(t task.Task, text string, share float64) {
		if err := live.Publish(t.Session, events.ToolProgress{Call: t.Call, Text: text, Share: share}); err != nil {
			log.Debug("progress not published", zap.Error(err))
		}
	}
}
