package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnlog/turnlog/internal/nearest"
)

// badValue is the parser's error for an invalid value of a flag.
type badValue interface {
	error
	GetValue() string
	Unwrap() error
}

// flagError replaces the parser's error about a flag with one that says which values the flag accepts.
func flagError(cmd *cobra.Command, err error) error {
	if name, unknown := strings.CutPrefix(err.Error(), "unknown flag: --"); unknown {
		if near := similarFlag(cmd, name); near != "" {
			return fmt.Errorf("%w: did you mean --%s?", err, near)
		}
		return err
	}
	bad, is := errors.AsType[badValue](err)
	if !is {
		return err
	}
	_, name, _ := strings.Cut(err.Error(), "--") // … for "-o, --output" flag: …
	name, _, _ = strings.Cut(name, `"`)
	takes, kind := bad.Unwrap().Error(), ""
	if f := cmd.Flag(name); f != nil {
		kind = f.Value.Type()
	}
	switch {
	case errors.Is(err, strconv.ErrRange):
		takes = "the number is too large"
	case kind == "bool":
		takes = "use true or false, or the flag alone"
	case kind == "duration":
		takes = "use a time with its unit, such as 500ms, 30s or 2h30m"
	case strings.HasPrefix(kind, "uint"):
		takes = "use a whole number, 0 or more"
	case strings.HasPrefix(kind, "int"):
		takes = "use a whole number"
	}
	return fmt.Errorf("--%s %q: %s", name, bad.GetValue(), takes)
}

// similarFlag returns the flag of cmd that is most similar to a name, or "".
func similarFlag(cmd *cobra.Command, name string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if i := slices.IndexFunc(names, func(flag string) bool { return strings.HasPrefix(flag, name) }); i >= 0 {
		return names[i]
	}
	return nearest.To(name, names)
}
