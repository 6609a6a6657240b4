// Package toolset lists the tools of the binaries, their flags, and the policy that the
// flags set.
//
// A set is a group of tools that a command line enables by one name. [Sets] returns all
// of them as a slice. Nothing registers itself.
//
// A program registers its [Flags], calls [Flags.Start] once, and gives its worker the
// configuration that [Tools.Worker] returns.
package toolset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/exec"
	"github.com/turnlog/turnlog/tool/fetch"
	"github.com/turnlog/turnlog/tool/fs"
)

// Set is a group of tools that a command line enables by one name.
type Set struct {
	Name    string
	Pattern string // matches the names of its tools; "": models do not see them
	About   string // for people
	Open    func(o Options) ([]tool.Tool, error)
}

// Options configure the tools.
type Options struct {
	Root       string // the directory that they work in
	AllowWrite bool   // file tools may write
	ReadFirst  bool   // and change only files that they have read
	Unlinked   bool   // and search no file with several names

	Commands exec.Options // of every tool that runs commands
	Fetch    fetch.Options
}

// Sets lists the sets of the binaries. To add a set, add a line, list its tools in toolNames, and
// describe it in docs/tools.md.
func Sets() []Set {
	return []Set{
		{"fs", "fs_*", "list, find, read, search and count files; with --allow-write also write, edit, patch and delete them", func(o Options) ([]tool.Tool, error) {
			return fs.New(o.Root, fs.Options{Write: o.AllowWrite, ReadFirst: o.ReadFirst, Unlinked: o.Unlinked})
		}},
		{"shell", "shell_exec", "run any command as this user: --allow-write does not limit it, and --deny-command only filters command lines; includes gate", func(o Options) ([]tool.Tool, error) {
			return one(exec.NewShell(o.Root, o.Commands))
		}},
		{"fetch", "http_fetch", "read from the web, from the hosts in --fetch-allow", func(o Options) ([]tool.Tool, error) {
			return one(fetch.New(o.Fetch))
		}},
		{verifierSet, "", "run the verifiers of tasks as this user; models do not see it", func(o Options) ([]tool.Tool, error) {
			return one(exec.NewVerifier(o.Root, o.Commands))
		}},
	}
}

// verifierSet runs verifiers. A worker that can run commands always has it.
const verifierSet = "gate"

func one(t tool.Tool, err error) ([]tool.Tool, error) { return []tool.Tool{t}, err }

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

func open(names []string, o Options) ([]tool.Source, error) {
	var sources []tool.Source
	for _, name := range names {
		i := slices.Index(Names(), name)
		if i < 0 {
			return nil, fmt.Errorf("unknown set of tools %q: use %s", name, strings.Join(Names(), ", "))
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
