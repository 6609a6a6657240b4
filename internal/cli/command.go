package cli

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args, cmd.SuggestionsMinimumDistance = subcommand, 2
		// Its usage lists its commands, although it can be run.
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

// connecting marks the flags that say where a deployment is.
const connecting = "turnlog_connection"

// group marks flags that were added to a set after others were.
func group(fs *pflag.FlagSet, others map[string]bool) {
	fs.VisitAll(func(f *pflag.Flag) {
		if !others[f.Name] {
			_ = fs.SetAnnotation(f.Name, connecting, nil) // the flag exists
		}
	})
}

// Usages prints the usage of a command, with the flags of the connection after the others.
func Usages(cmd *cobra.Command) error {
	connection := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, fs := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
		fs.VisitAll(func(f *pflag.Flag) {
			if _, ok := f.Annotations[connecting]; ok && !f.Hidden {
				connection.AddFlag(f)
			}
		})
	}
	hide := func(hidden bool) { connection.VisitAll(func(f *pflag.Flag) { f.Hidden = hidden }) }
	text := connection.FlagUsages()
	hide(true)
	defer hide(false)
	if err := (&cobra.Command{}).UsageFunc()(cmd); err != nil || text == "" {
		return err
	}
	_, err := fmt.Fprintf(cmd.OutOrStderr(), "\nConnection Flags:\n%s", text)
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
// optional, NAME... takes the rest.
func argumentsOf(use string) cobra.PositionalArgs {
	var names []string
	required, most := 0, 0
	for _, name := range strings.Fields(use)[1:] {
		names = append(names, name)
		if !strings.HasPrefix(name, "[") {
			required++
		}
		most++
		if strings.HasSuffix(strings.TrimSuffix(name, "]"), "...") {
			most = -1
		}
	}
	return func(_ *cobra.Command, args []string) error {
		if len(args) < required {
			return fmt.Errorf("argument %s is missing", strings.TrimSuffix(names[len(args)], "..."))
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
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return cmp.Or(strings.Trim(info.Main.Version, "()"), "devel") + " " + info.GoVersion
}
