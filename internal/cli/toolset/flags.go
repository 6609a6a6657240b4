package toolset

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/internal/egress"
	"github.com/turnlog/turnlog/internal/sandbox"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/httptool"
	"github.com/turnlog/turnlog/tool/mcp"
)

// Flags select the tools of a worker, and what their calls may do.
type Flags struct {
	Options

	flags        *pflag.FlagSet
	sets         []string
	verifiers    bool // also run the verifiers of tasks
	passEnv      []string
	sandbox      string
	fetchPrivate []string
	manifests    []string
	outputLimit  int
	policy       policyFlags
	servers      serverFlags
	http         httpFlags

	// Set by Start.
	absent      []string // paths of --protect and --read-only that do not exist
	noSandbox   string   // why --sandbox auto chose none
	permissions tool.Permissions
	mcp         []mcp.Server
	remote      []httptool.Service
}

// Register adds the flags to a command. sets is the default of --tools.
func (f *Flags) Register(cmd *cobra.Command, sets ...string) {
	fs := cmd.Flags()
	f.flags = fs
	fs.StringSliceVar(&f.sets, "tools", sets, "comma-separated `sets` of tools: "+strings.Join(Names(), ", ")+"; or none; shell runs any command as this user")
	fs.StringVar(&f.Root, "root", ".", "`directory` that the tools work in; file tools cannot leave it")
	fs.BoolVar(&f.AllowWrite, "allow-write", false, "let the file tools write; by default they only read")
	fs.BoolVar(&f.ReadFirst, "read-before-write", false, "let file tools change an existing file only if they have read its current version")
	fs.StringArrayVar(&f.passEnv, "pass-env", nil, "`NAME` or NAME=value of a variable to pass to commands; repeatable")
	fs.StringVar(&f.sandbox, "sandbox", sandbox.Auto, "`sandbox` that commands run in: "+strings.Join(sandbox.Kinds(), ", ")+"; auto uses bwrap if it works on this machine; bwrap fails if it does not work")
	fs.BoolVar(&f.Commands.Network, "sandbox-network", false, "allow the network in the sandbox")
	fs.StringArrayVar(&f.Commands.Writable, "sandbox-write", nil, "`path` that commands in the sandbox may write, in addition to --root and their own /tmp; repeatable")
	fs.StringArrayVar(&f.Fetch.Hosts, "fetch-allow", nil, "`host` that http_fetch may read from, such as example.com, *.example.com, example.com:8080, or * for any; repeatable")
	fs.StringArrayVar(&f.Fetch.Methods, "fetch-method", nil, "`method` that http_fetch may use; default: GET and HEAD; repeatable")
	fs.StringArrayVar(&f.fetchPrivate, "fetch-private", nil, "private `addresses`, such as 10.1.0.0/16, that http_fetch may reach; repeatable")
	fs.StringArrayVar(&f.manifests, "tool-manifest", nil, "manifest `file` that turns an executable into a tool, or a folder of manifests; repeatable")
	fs.IntVar(&f.outputLimit, "output-limit", 0, "maximum `bytes` of output in a result; longer output is stored, and output_read reads parts of it; 0: truncate it at 1 MiB")
	f.servers.register(fs)
	f.http.register(fs)
	f.policy.register(fs)
	about(fs, "fs", "read-before-write")
	about(fs, "fetch", "fetch-allow", "fetch-method", "fetch-private")
	about(fs, commands, "pass-env", "sandbox", "sandbox-network", "sandbox-write")
	_ = cmd.RegisterFlagCompletionFunc("tools", completeSets) // the flags exist
	_ = cmd.RegisterFlagCompletionFunc("sandbox", cobra.FixedCompletions(sandbox.Kinds(), cobra.ShellCompDirectiveNoFileComp))
	_, _ = cmd.MarkFlagDirname("root"), cmd.MarkFlagDirname("allow-root")
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

// FlagNames lists the flags. They apply only where a worker starts.
func FlagNames() (names []string) {
	var cmd cobra.Command
	new(Flags).Register(&cmd, DefaultSet)
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

// check checks the values that depend on one another. A flag without effect is an error:
// its set of tools is not chosen.
func (f *Flags) check() (err error) {
	sets := f.Sets()
	switch {
	case f.outputLimit < 0:
		return fmt.Errorf("--output-limit %d: use a positive number, or 0", f.outputLimit)
	case slices.Contains(sets, "fetch") && len(f.Fetch.Hosts) == 0:
		return errors.New("--tools fetch: name the allowed hosts with --fetch-allow, or * for any")
	}
	if f.runsCommands() {
		sets = append(sets, commands)
	}
	f.flags.Visit(func(given *pflag.Flag) {
		set := given.Annotations[aboutSet]
		switch {
		case err != nil || set == nil || slices.Contains(sets, set[0]) || given.Value.String() == given.DefValue:
		case set[0] == commands:
			err = fmt.Errorf("--%s needs commands: add shell or gate to --tools, or a --tool-manifest", given.Name)
		default:
			err = fmt.Errorf("--%s needs the tool set %s: add it to --tools", given.Name, set[0])
		}
	})
	return err
}

func (f *Flags) runsCommands() bool {
	sets := f.Sets()
	return f.verifiers || slices.Contains(sets, "shell") || slices.Contains(sets, verifierSet) || len(f.manifests) > 0
}

// DefaultSet is the set of a worker whose flags name none. NoSet chooses no set, for tools that come from
// MCP servers, manifests or agents only.
const (
	DefaultSet = "fs"
	NoSet      = "none"
)

// Any reports whether the flags name any tools.
func (f *Flags) Any() bool {
	return len(f.Sets())+len(f.manifests)+len(f.servers.servers)+len(f.http.services) > 0
}

// RunsCommands reports whether there are tools that run commands, or are commands, after Start.
func (f *Flags) RunsCommands() bool {
	return f.runsCommands() || slices.ContainsFunc(f.mcp, func(s mcp.Server) bool { return len(s.Command) > 0 })
}

// chosen lists what --tools names, without duplicates.
func (f *Flags) chosen() []string {
	var names []string
	for _, name := range f.sets {
		names = append(names, strings.TrimSpace(name))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Sets lists the chosen sets.
func (f *Flags) Sets() []string {
	return slices.DeleteFunc(f.chosen(), func(name string) bool { return name == NoSet })
}

func (f *Flags) openSets() ([]tool.Source, error) {
	names := f.Sets()
	switch none := len(names) < len(f.chosen()); {
	case none && len(names) > 0:
		return nil, errors.New("--tools: " + NoSet + " cannot be combined with sets")
	case !none && len(names) == 0:
		return nil, errors.New("--tools: name at least one of " + strings.Join(Names(), ", ") + ", or " + NoSet)
	}
	if (f.verifiers || slices.Contains(names, "shell")) && !slices.Contains(names, verifierSet) {
		names = append(names, verifierSet)
	}
	sources, err := open(names, f.Options)
	if err != nil {
		return nil, fmt.Errorf("--tools: %w", err)
	}
	return sources, nil
}

// RunVerifiers adds the set that runs the verifiers of tasks.
func (f *Flags) RunVerifiers() { f.verifiers = true }

// parsePrivate parses the addresses that http_fetch may reach although they are private.
func (f *Flags) parsePrivate() error {
	for _, text := range f.fetchPrivate {
		p, err := egress.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("--fetch-private %w", err)
		}
		f.Fetch.Private = append(f.Fetch.Private, p)
	}
	return nil
}

// Sandbox returns the sandbox in which commands run, after Start, or why there is none.
func (f *Flags) Sandbox() string {
	if f.noSandbox != "" {
		return f.Commands.Sandbox + ": " + f.noSandbox
	}
	return f.Commands.Sandbox
}

// SandboxNote returns a line about what --sandbox auto chose, or "" if another value was given.
func (f *Flags) SandboxNote() string {
	switch {
	case f.sandbox != sandbox.Auto || !f.runsCommands():
		return ""
	case f.noSandbox != "":
		return "commands run without a sandbox: " + f.noSandbox
	}
	return "commands run in a sandbox: " + f.Commands.Sandbox
}

// Absent returns a line for each path of --protect and --read-only that does not exist. Commands can create
// and change such a path, because the sandbox cannot mount on it. File tools refuse it by its name.
func (f *Flags) Absent() []string { return f.absent }

// Fields returns the log fields about the tools for a program that starts.
func (f *Flags) Fields() []zap.Field {
	return []zap.Field{
		zap.Strings("tools", f.Sets()), zap.String("root", f.Root), zap.Bool("allow_write", f.AllowWrite),
		zap.Strings("tool_policy", f.policy.given()), zap.String("sandbox", f.Sandbox()), zap.Strings("mcp", f.Servers()), zap.Strings("http_tools", f.httpTools()),
	}
}

// Servers lists the MCP servers of the flags as NAME=ADDRESS.
func (f *Flags) Servers() []string {
	var out []string
	for _, s := range f.mcp {
		out = append(out, s.Name+"="+s.Address())
	}
	return out
}

// httpTools lists the HTTP tools of the flags as NAME=ADDRESS.
func (f *Flags) httpTools() []string {
	var out []string
	for _, s := range f.remote {
		out = append(out, s.Name+"="+s.Address())
	}
	return out
}
