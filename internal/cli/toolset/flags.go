package toolset

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/mcp"
)

// Flags say which tools a worker has, and what calls of them may do.
type Flags struct {
	Options

	sets        []string
	policy      policyFlags
	knobs       knobs
	servers     serverFlags
	permissions tool.Permissions
	more        []mcp.Server // beside those that the flags name
	mcp         []mcp.Server
}

// Register adds the flags to a command.
func (f *Flags) Register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringSliceVar(&f.sets, "tools", []string{"fs"}, "`sets` of tools, separated by commas: "+strings.Join(Names(), ", ")+"; or none; shell runs any command, as this user")
	fs.StringVar(&f.Root, "root", ".", "`directory` that the tools work in; file tools cannot leave it")
	fs.BoolVar(&f.AllowWrite, "allow-write", false, "let the file tools write; without it they only read")
	f.knobs.register(cmd)
	f.servers.register(cmd)
	f.policy.register(cmd)
	_ = cmd.RegisterFlagCompletionFunc("tools", completeSets) // the flag is there
	_ = cmd.MarkFlagDirname("root")                           // as above
}

// completeSets offers the sets that are not named yet.
func completeSets(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before := typed[:strings.LastIndexByte(typed, ',')+1]
	var out []cobra.Completion
	for _, s := range Sets() {
		if !slices.Contains(strings.Split(before, ","), s.Name) {
			out = append(out, cobra.CompletionWithDesc(before+s.Name, s.About))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// FlagNames are the flags that only count where a worker is started.
func FlagNames() []string {
	names := append([]string{"tools", "root", "allow-write"}, knobNames()...)
	names = append(names, serverFlagNames()...)
	for _, p := range new(policyFlags).all() {
		names = append(names, p.name)
	}
	return names
}

// noSet is what to name where no set is wanted: the tools are those of MCP servers, of
// manifests or of agents.
const noSet = "none"

// Sets are the sets that the flags name, each once.
func (f *Flags) Sets() []string {
	names := f.named()
	return slices.DeleteFunc(names, func(name string) bool { return name == noSet })
}

func (f *Flags) named() []string {
	var names []string
	for _, name := range f.sets {
		names = append(names, strings.TrimSpace(name))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// openSets makes the tools of the sets.
func (f *Flags) openSets() ([]tool.Source, error) {
	names := f.Sets()
	if !slices.Contains(f.named(), noSet) {
		return Open(names, f.Options)
	}
	switch {
	case len(names) == 0:
		return nil, nil
	case slices.Equal(names, []string{gateSet}): // which RunGates adds
		return Open(names, f.Options)
	}
	return nil, errors.New(noSet + " stands alone")
}

// RunGates adds the set that runs the gates of tasks.
func (f *Flags) RunGates() { f.sets = append(f.sets, gateSet) }

// AddServers adds MCP servers to those that the flags name, before Open.
func (f *Flags) AddServers(servers ...mcp.Server) { f.more = append(f.more, servers...) }

// Open makes the tools that the flags name, a source for each set. What is wrong
// is the command line's fault.
func (f *Flags) Open() ([]tool.Source, error) {
	root, err := filepath.Abs(f.Root)
	if err != nil {
		return nil, fmt.Errorf("--root %s: %w", f.Root, err)
	}
	f.Root = root
	dir, err := tool.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("--%w", err) // it begins with root
	}
	_ = dir.Close() // it was only looked at
	if err := f.knobs.check(f.Sets()); err != nil {
		return nil, err
	}
	if err := f.knobs.options(context.Background(), &f.Options); err != nil {
		return nil, err
	}
	sources, err := f.openSets()
	if err != nil {
		return nil, fmt.Errorf("--tools: %w", err)
	}
	manifests, err := f.knobs.manifestTools(f.Options, sources)
	if err != nil {
		return nil, err
	}
	if manifests != nil {
		sources = append(sources, manifests)
	}
	if f.permissions, err = f.policy.permissions(root, f.Sets()); err != nil {
		return nil, err
	}
	if f.mcp, err = f.servers.parse(); err != nil {
		return nil, err
	}
	f.mcp = append(f.mcp, f.more...)
	if err := (mcp.Config{Servers: f.mcp}).Check(); err != nil {
		return nil, fmt.Errorf("--mcp: %w", err)
	}
	return sources, nil
}

// Permissions is what the flags let calls do, once Open has made the tools: nil if they
// say nothing about that. It is a worker's to enforce, where the files are.
func (f *Flags) Permissions() tool.Permissions { return f.permissions }

// Policy lists the flags that say what calls may do, as they were given.
func (f *Flags) Policy() []string { return f.policy.told() }
