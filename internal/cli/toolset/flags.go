package toolset

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/tool"
)

// Flags say which tools a worker has, and what calls of them may do.
type Flags struct {
	Options

	sets        []string
	policy      policyFlags
	permissions tool.Permissions
}

// Register adds the flags to a command.
func (f *Flags) Register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringSliceVar(&f.sets, "tools", []string{"fs"}, "`sets` of tools, separated by commas: "+strings.Join(Names(), ", ")+"; shell runs any command, as this user")
	fs.StringVar(&f.Root, "root", ".", "`directory` that the tools work in; file tools cannot leave it")
	fs.BoolVar(&f.AllowWrite, "allow-write", false, "let the file tools write; without it they only read")
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
	names := []string{"tools", "root", "allow-write"}
	for _, p := range new(policyFlags).all() {
		names = append(names, p.name)
	}
	return names
}

// Sets are the sets that the flags name, each once.
func (f *Flags) Sets() []string {
	var names []string
	for _, name := range f.sets {
		names = append(names, strings.TrimSpace(name))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// RunGates adds the set that runs the gates of tasks.
func (f *Flags) RunGates() { f.sets = append(f.sets, gateSet) }

// Open makes the tools that the flags name, a source for each set. What is wrong
// is the command line's fault.
func (f *Flags) Open() ([]tool.Source, error) {
	root, err := filepath.Abs(f.Root)
	if err != nil {
		return nil, fmt.Errorf("--root %s: %w", f.Root, err)
	}
	f.Root = root
	sources, err := Open(f.Sets(), f.Options)
	if err != nil {
		return nil, fmt.Errorf("--tools: %w", err)
	}
	if f.permissions, err = f.policy.permissions(root, f.Sets()); err != nil {
		return nil, err
	}
	return sources, nil
}

// Permissions is what the flags let calls do, once Open has made the tools: nil if they
// say nothing about that. It is a worker's to enforce, where the files are.
func (f *Flags) Permissions() tool.Permissions { return f.permissions }

// Policy lists the flags that say what calls may do, as they were given.
func (f *Flags) Policy() []string { return f.policy.told() }
