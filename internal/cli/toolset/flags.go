package toolset

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/tool"
)

// Flags say which tools a worker has.
type Flags struct {
	Options

	sets []string
}

// Register adds the flags to a command.
func (f *Flags) Register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringSliceVar(&f.sets, "tools", []string{"fs"}, "`sets` of tools, separated by commas: "+strings.Join(Names(), ", ")+"; shell runs any command, as this user")
	fs.StringVar(&f.Root, "root", ".", "`directory` that the tools work in; file tools cannot leave it")
	fs.BoolVar(&f.AllowWrite, "allow-write", false, "let the file tools write; without it they only read")
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
func FlagNames() []string { return []string{"tools", "root", "allow-write"} }

// Sets are the sets that the flags name, each once.
func (f *Flags) Sets() []string {
	var names []string
	for _, name := range f.sets {
		names = append(names, strings.TrimSpace(name))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

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
	return sources, nil
}
