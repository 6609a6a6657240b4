package cli

import (
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnlog/turnlog/internal/release"
)

// prepare applies the conventions of this package to a command and its subcommands. It
// sets began when a command's own code starts: earlier errors are usage errors.
func prepare(cmd *cobra.Command, began *bool) {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if !cmd.HasParent() {
		cmd.Version = Version()
		cmd.SetVersionTemplate("{{.Name}} {{.Version}}\n")
		cmd.SetFlagErrorFunc(flagError) // and of subcommands
		cmd.SetUsageFunc(Usages)
	}
	if cmd.HasSubCommands() {
		cmd.SuggestionsMinimumDistance = 2
	}
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = subcommand
		// The usage of a runnable command with subcommands lists the subcommands.
		cmd.SetUsageTemplate(strings.Replace(cmd.UsageTemplate(), "{{if .Runnable}}", "{{if not .HasSubCommands}}", 1))
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	if cmd.Args == nil {
		cmd.Args = argumentsOf(cmd.Use)
	}
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*began = true
			return run(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		prepare(sub, began)
	}
}

// Titles of the groups of flags that a usage lists after the others, in this order.
const (
	ToolFlags       = "Tool Flags"
	connectionFlags = "Connection Flags"
)

// grouped marks the flags of a group with its title.
const grouped = "turnlog_group"

// Group makes a usage list the flags that add adds under a title.
func Group(fs *pflag.FlagSet, title string, add func()) {
	others := make(map[string]bool)
	fs.VisitAll(func(f *pflag.Flag) { others[f.Name] = true })
	add()
	fs.VisitAll(func(f *pflag.Flag) {
		if !others[f.Name] {
			_ = fs.SetAnnotation(f.Name, grouped, []string{title}) // the flag exists
		}
	})
}

// Usages prints the usage of a command, with the groups of flags after the others.
func Usages(cmd *cobra.Command) error {
	groups := map[string]*pflag.FlagSet{ToolFlags: pflag.NewFlagSet("", pflag.ContinueOnError), connectionFlags: pflag.NewFlagSet("", pflag.ContinueOnError)}
	for _, fs := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
		fs.VisitAll(func(f *pflag.Flag) {
			if title := f.Annotations[grouped]; len(title) > 0 && !f.Hidden {
				groups[title[0]].AddFlag(f)
			}
		})
	}
	var text strings.Builder
	for _, title := range []string{ToolFlags, connectionFlags} {
		if flags := groups[title].FlagUsages(); flags != "" {
			text.WriteString("\n" + title + ":\n" + flags)
		}
	}
	hide := func(hidden bool) {
		for _, fs := range groups {
			fs.VisitAll(func(f *pflag.Flag) { f.Hidden = hidden })
		}
	}
	hide(true)
	defer hide(false)
	if err := (&cobra.Command{}).UsageFunc()(cmd); err != nil || text.Len() == 0 {
		return err
	}
	_, err := io.WriteString(cmd.OutOrStderr(), text.String())
	return err //nolint:wrapcheck // of the output
}

// subcommand rejects arguments of a command that only has subcommands.
func subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if close := cmd.SuggestionsFor(args[0]); len(close) > 0 {
		return fmt.Errorf("unknown command %q: did you mean %q?", args[0], close[0])
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// argumentsOf checks arguments against a usage line: NAME is required, [NAME] is
// optional, NAME... takes the rest. What follows --FLAG are not arguments.
func argumentsOf(use string) cobra.PositionalArgs {
	var required []string
	most := 0
	for _, name := range strings.Fields(use)[1:] {
		if strings.HasPrefix(name, "--") {
			break
		}
		if !strings.HasPrefix(name, "[") {
			required = append(required, strings.TrimSuffix(name, "..."))
		}
		most++
		if strings.HasSuffix(strings.TrimSuffix(name, "]"), "...") {
			most = -1
		}
	}
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(required) {
			return fmt.Errorf("argument %s is missing", required[len(args)])
		}
		if most == 0 && cmd.HasSubCommands() {
			return subcommand(cmd, args)
		}
		if most >= 0 && len(args) > most {
			return fmt.Errorf("unexpected argument %q", args[most])
		}
		return nil
	}
}

// Version returns the version of the module, which Go derives from the commit, and the
// release of Go.
func Version() string {
	return release.Version() + " " + runtime.Version()
}
