package verdict

import (
	"fmt"
	"slices"
	"strings"
)

// Level is how much is proved about a journal. Each level includes those below it.
type Level int

// The levels, from the lowest. See the package comment for how they combine.
const (
	None      Level = iota // a fault, or nothing to judge
	Chain                  // the entries form one chain, keep every invariant, and every digest fits
	Signed                 // each entry is signed by the key that its driver's claim names
	Anchored               // a head of the journal was kept elsewhere, and the journal still contains it
	Witnessed              // such a head is in a log whose checkpoint was cosigned by the required witnesses
)

// Levels lists the levels that can be required, from the lowest.
func Levels() []Level { return []Level{Chain, Signed, Anchored, Witnessed} }

// String returns the name of the level.
func (l Level) String() string {
	return [...]string{"none", "chain", "signed", "anchored", "witnessed"}[l]
}

// MarshalText returns the name of the level.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText accepts the name of a level that can be required, or none.
func (l *Level) UnmarshalText(name []byte) error {
	all := slices.Insert(Levels(), 0, None)
	i := slices.IndexFunc(all, func(l Level) bool { return l.String() == string(name) })
	if i < 0 {
		return fmt.Errorf("unknown level %q: use %s", name, LevelNames())
	}
	*l = all[i]
	return nil
}

// LevelNames lists the names of the levels that can be required, for help and errors.
func LevelNames() string {
	var names []string
	for _, l := range Levels() {
		names = append(names, l.String())
	}
	return strings.Join(names, ", ")
}
