// Package release says which release of Turnlog a program has.
package release

import (
	"cmp"
	"runtime/debug"
	"strings"
	"sync"
)

const module = "github.com/turnlog/turnlog"

// Version returns the version of the module, which Go derives from the commit: of this program, or of the library in
// a program of others. It is "devel" for a program that was built without version control.
//
//nolint:gochecknoglobals // a constant of the program
var Version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	m := &info.Main
	for _, d := range info.Deps {
		if d.Path == module {
			m = d
		}
	}
	return cmp.Or(strings.Trim(m.Version, "()"), "devel")
})
