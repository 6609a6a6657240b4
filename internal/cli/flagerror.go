package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// badValue is the parser's error for an invalid value of a flag.
type badValue interface {
	error
	GetValue() string
	Unwrap() error
}

// flagError rewords the parser's error about a flag: it says what the flag takes.
func flagError(cmd *cobra.Command, err error) error {
	if name, unknown := strings.CutPrefix(err.Error(), "unknown flag: --"); unknown {
		if near := nearest(cmd, name); near != "" {
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

// nearest is the flag of cmd that is most like a name, or "" if none is.
func nearest(cmd *cobra.Command, name string) string {
	best, least := "", 1+len(name)/3
	for _, f := range all(cmd.Flags().VisitAll) {
		d := distance(name, f.Name)
		if strings.HasPrefix(f.Name, name) {
			d = 1
		}
		if !f.Hidden && d <= least {
			best, least = f.Name, d-1
		}
	}
	return best
}

func all[F any](visit func(func(F))) (out []F) {
	visit(func(f F) { out = append(out, f) })
	return out
}

// distance is how many letters have to be put in, left out or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := slices.Clone(row)
		row[0] = i + 1
		for j := range len(b) {
			change := before[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, before[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
