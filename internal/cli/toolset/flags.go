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

// Flags choose the tools of a worker and what their calls may do.
type Flags struct {
	Options

	sets        []string
	policy      policyFlags
	settings    settings
	servers     serverFlags
	permissions tool.Permissions
	more        []mcp.Server // in addition to those of the flags
	mcp         []mcp.Server
}

// Register adds the flags to a command.
func (f *Flags) Register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringSliceVar(&f.sets, "tools", []string{"fs"}, "comma-separated `sets` of tools: "+strings.Join(Names(), ", ")+"; or none; shell runs any command as this user")
	fs.StringVar(&f.Root, "root", ".", "`directory` that the tools work in; file tools cannot leave it")
	fs.BoolVar(&f.AllowWrite, "allow-write", false, "let the file tools write; otherwise they only read")
	f.settings.register(cmd)
	f.servers.register(cmd)
	f.policy.register(cmd)
	_ = cmd.RegisterFlagCompletionFunc("tools", completeSets) // the flag is there
	_ = cmd.MarkFlagDirname("root")                           // likewise
}

// completeSets offers the sets that are not chosen yet.
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

// FlagNames lists the flags that only apply where a worker starts.
func FlagNames() []string {
	names := append([]string{"tools", "root", "allow-write"}, settingNames()...)
	names = append(names, serverFlagNames()...)
	for _, p := range new(policyFlags).all() {
		names = append(names, p.name)
	}
	return names
}

// noSet chooses no set, for tools that come from MCP servers, manifests or agents only.
const noSet = "none"

// Sets lists the chosen sets, without duplicates.
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

// openSets opens the chosen sets.
func (f *Flags) openSets() ([]tool.Source, error) {
	names := f.Sets()
	if !slices.Contains(f.named(), noSet) {
		return Open(names, f.Options)
	}
	switch {
	case len(names) == 0:
		return nil, nil
	case slices.Equal(names, []string{gateSet}): // RunGates added it
		return Open(names, f.Options)
	}
	return nil, errors.New(noSet + " cannot be combined with sets")
}

// RunGates adds the set that runs the verifiers of tasks.
func (f *Flags) RunGates() { f.sets = append(f.sets, gateSet) }

// AddServers adds MCP servers to those of the flags. Call it before Open.
func (f *Flags) AddServers(servers ...mcp.Server) { f.more = append(f.more, servers...) }

// Open opens the tools of the flags, as one source per set. Its errors are usage errors.
func (f *Flags) Open() ([]tool.Source, error) {
	root, err := filepath.Abs(f.Root)
	if err != nil {
		return nil, fmt.Errorf("--root %s: %w", f.Root, err)
	}
	f.Root = root
	dir, err := tool.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("--%w", err) // the error begins with "root"
	}
	_ = dir.Close() // this was only a check
	if err := f.settings.check(f.Sets()); err != nil {
		return nil, err
	}
	if err := f.settings.options(context.Background(), &f.Options); err != nil {
		return nil, err
	}
	sources, err := f.openSets()
	if err != nil {
		return nil, fmt.Errorf("--tools: %w", err)
	}
	manifests, err := f.settings.manifestTools(f.Options, sources)
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

// Permissions returns the policy of the flags after Open, or nil if they set none. A
// worker enforces it where the files are.
func (f *Flags) Permissions() tool.Permissions { return f.permissions }

// Policy lists the policy flags as they were given.
func (f *Flags) Policy() []string { return f.policy.given() }
