package settings

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnlog/turnlog/internal/nearest"
)

// FileFlag is the flag that names a file of settings, and FileVariable is its variable.
const (
	FileFlag     = "config"
	FileVariable = prefix + "CONFIG"

	prefix = "TURNLOG_"
)

// Lasts marks a program that runs until it is stopped: its flags can also come from a file.
func Lasts(cmd *cobra.Command) {
	cmd.Flags().String(FileFlag, "", "`file` of settings, see docs/settings.md")
	_ = cmd.MarkFlagFilename(FileFlag, "yaml", "yml") // the flag exists
}

// Register reads the settings of the command and of its subcommands before one starts. Call it when the command is complete.
func Register(root *cobra.Command, getenv func(string) string) {
	next := root.PersistentPreRunE
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		file, given, err := apply(cmd, getenv)
		if err != nil {
			return err
		}
		if file != nil {
			reloadOnHangup(cmd, file, given)
		}
		if next == nil {
			return nil
		}
		return next(cmd, args)
	}
}

// Variable returns the environment variable of a flag.
func Variable(f *pflag.Flag) string {
	if own := ownVariable(f); own != "" {
		return own
	}
	return prefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
}

var bracketed = regexp.MustCompile(`\[([A-Z_]+)\]$`)

// ownVariable returns the variable of a flag whose package reads it. The help of most such flags names it.
func ownVariable(f *pflag.Flag) string {
	if f.Name == "model" {
		return prefix + "MODEL" // an agent's model overrides it, but not the flag
	}
	if m := bracketed.FindStringSubmatch(f.Usage); m != nil {
		return m[1]
	}
	return ""
}

// exclusive is cobra's annotation of a flag that excludes others: its values are groups of names.
const exclusive = "cobra_annotation_mutually_exclusive"

// spread adds to the given flags those that mean the same or that they exclude, so that no other source sets them.
func spread(given map[string]bool, groups []string) {
	for _, group := range append(groups, "server context", "creds user password token nkey") {
		if names := strings.Fields(group); slices.ContainsFunc(names, func(name string) bool { return given[name] }) {
			for _, name := range names {
				given[name] = true
			}
		}
	}
}

// apply sets the flags that the command line does not set. It returns the file that it read, and the flags that the
// file could not set.
func apply(cmd *cobra.Command, getenv func(string) string) (file *File, given map[string]bool, err error) {
	given = make(map[string]bool)
	var groups []string
	each(cmd, func(f *pflag.Flag) {
		given[f.Name] = f.Changed
		groups = append(groups, f.Annotations[exclusive]...)
	})
	spread(given, groups)
	inEnvironment := make(map[string]bool)
	each(cmd, func(f *pflag.Flag) {
		text := getenv(Variable(f))
		if given[f.Name] || text == "" || err != nil {
			return
		}
		inEnvironment[f.Name] = true
		if ownVariable(f) != "" {
			return
		}
		err = set(cmd, f, valuesIn(f.Value.Type(), text), Variable(f))
	})
	maps.Copy(given, inEnvironment)
	spread(given, groups)
	if path := cmd.Flags().Lookup(FileFlag); err != nil || path == nil || path.Value.String() == "" {
		return nil, given, err
	}
	if file, err = readFor(cmd); err != nil {
		return nil, given, err
	}
	each(cmd, func(f *pflag.Flag) {
		if value, ok := file.Of(cmd.CommandPath(), f.Name); ok && !given[f.Name] && err == nil {
			err = set(cmd, f, value, file.Path)
		}
	})
	return file, given, err
}

// readFor reads the file that a command names.
func readFor(cmd *cobra.Command) (*File, error) {
	file, err := Read(cmd.Flags().Lookup(FileFlag).Value.String())
	if err != nil {
		return nil, err
	}
	var known []string
	each(cmd, func(f *pflag.Flag) { known = append(known, f.Name) })
	for _, name := range slices.Sorted(maps.Keys(file.Sections[cmd.CommandPath()])) {
		if !slices.Contains(known, name) || name == FileFlag {
			return nil, fmt.Errorf("%s: %s has no setting %q%s", file.Path, cmd.CommandPath(), name, nearest.Hint(name, known))
		}
	}
	return file, nil
}

// each calls do for the settings of a command.
func each(cmd *cobra.Command, do func(*pflag.Flag)) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && f.Name != "version" {
			do(f)
		}
	})
}

// valuesIn returns the value of a flag of a type in a variable. A repeatable flag has one value a line.
func valuesIn(kind, text string) Value {
	if repeatable(kind) {
		return Value{Texts: strings.Split(strings.TrimSpace(text), "\n"), List: true}
	}
	return Value{Texts: []string{text}}
}

func repeatable(kind string) bool { return kind == "stringArray" || kind == "stringSlice" }

// set sets a flag to a value. place says where the value comes from.
func set(cmd *cobra.Command, f *pflag.Flag, v Value, place string) error {
	if v.List && !repeatable(f.Value.Type()) {
		return fmt.Errorf("%s: %s: use one value, not a list", place, f.Name)
	}
	for _, text := range v.Texts {
		if err := cmd.Flags().Set(f.Name, text); err != nil {
			return fmt.Errorf("%s: %w", place, cmd.FlagErrorFunc()(cmd, err))
		}
	}
	return nil
}
