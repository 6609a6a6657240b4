package toolset

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/mcp"
)

// Flags choose the tools of a worker and what their calls may do.
type Flags struct {
	Options

	flags       *pflag.FlagSet
	sets        []string
	policy      policyFlags
	settings    settings
	servers     serverFlags
	permissions tool.Permissions
	mcp         []mcp.Server
}

// Register adds the flags to a command.
func (f *Flags) Register(cmd *cobra.Command) {
	fs := cmd.Flags()
	f.flags = fs
	fs.StringSliceVar(&f.sets, "tools", []string{"fs"}, "comma-separated `sets` of tools: "+strings.Join(Names(), ", ")+"; or none; shell runs any command as this user")
	fs.StringVar(&f.Root, "root", ".", "`directory` that the tools work in; file tools cannot leave it")
	fs.BoolVar(&f.AllowWrite, "allow-write", false, "let the file tools write; otherwise they only read")
	f.settings.register(cmd)
	f.servers.register(cmd)
	f.policy.register(cmd)
	_ = cmd.RegisterFlagCompletionFunc("tools", completeSets) // the flag exists
	_ = cmd.MarkFlagDirname("root")                           // the flag exists
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

// FlagNames lists the flags, which only apply where a worker starts.
func FlagNames() (names []string) {
	var cmd cobra.Command
	new(Flags).Register(&cmd)
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

const (
	aboutSet = "set"      // annotation of flags: the set whose tools they configure
	commands = "commands" // instead of a set: commands of any tool
)

// about says that flags configure the tools of one set.
func about(fs *pflag.FlagSet, set string, names ...string) {
	for _, name := range names {
		_ = fs.SetAnnotation(name, aboutSet, []string{set}) // the flag exists
	}
}

// checkSets returns an error for a flag without effect: its set of tools is not chosen.
func (f *Flags) checkSets() (err error) {
	sets := f.Sets()
	if slices.Contains(sets, "shell") || len(f.settings.manifests) > 0 {
		sets = append(sets, commands)
	}
	f.flags.Visit(func(given *pflag.Flag) {
		set := given.Annotations[aboutSet]
		switch {
		case err != nil || set == nil || slices.Contains(sets, set[0]) || given.Value.String() == given.DefValue:
		case set[0] == commands:
			err = fmt.Errorf("--%s needs commands: add shell to --tools, or a --tool-manifest", given.Name)
		default:
			err = fmt.Errorf("--%s is about the tools of the set %s, which --tools does not name", given.Name, set[0])
		}
	})
	return err
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
		return open(names, f.Options)
	}
	switch {
	case len(names) == 0:
		return nil, nil
	case slices.Equal(names, []string{gateSet}): // RunVerifiers added it
		return open(names, f.Options)
	}
	return nil, errors.New(noSet + " cannot be combined with sets")
}

// RunVerifiers adds the set that runs the verifiers of tasks.
func (f *Flags) RunVerifiers() { f.sets = append(f.sets, gateSet) }

// open opens the tools of the flags, as one source per set. The servers are in addition to
// those of the flags.
func (f *Flags) open(servers ...mcp.Server) ([]tool.Source, error) {
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
	if err := f.checkSets(); err != nil {
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
	if f.permissions, err = f.policy.permissions(root); err != nil {
		return nil, err
	}
	if f.mcp, err = f.servers.parse(); err != nil {
		return nil, err
	}
	f.mcp = append(f.mcp, servers...)
	if err := (mcp.Config{Servers: f.mcp}).Check(); err != nil {
		return nil, fmt.Errorf("--mcp: %w", err)
	}
	return sources, nil
}

// Permissions returns the policy of the flags after Start, or nil if they set none. A
// worker enforces it where the files are.
func (f *Flags) Permissions() tool.Permissions { return f.permissions }

// Policy lists the policy flags as they were given.
func (f *Flags) Policy() []string { return f.policy.given() }
