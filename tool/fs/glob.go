package fs

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// maxBraces bounds the alternatives of a pattern, which multiply.
const maxBraces = 10

// glob is a pattern for paths: * and ? within a name, [a-z], {a,b}, and ** for any
// number of directories. Without a slash it applies to the last name of a path.
type glob struct {
	pattern string
	base    bool
}

// parseGlob returns nil for the empty pattern.
func parseGlob(pattern string) (*glob, error) {
	switch {
	case pattern == "":
		return nil, nil
	case strings.Count(pattern, "{") > maxBraces:
		return nil, errors.New("the pattern has too many braces: use fewer")
	case !doublestar.ValidatePattern(pattern):
		return nil, fmt.Errorf("%q is not a pattern: a [ or { is not closed", pattern)
	}
	pattern = strings.TrimPrefix(strings.TrimPrefix(pattern, "./"), "/")
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	return &glob{pattern, !strings.Contains(pattern, "/")}, nil
}

// match reports whether a path matches, relative to the directory that the pattern
// starts from.
func (g *glob) match(name string) bool {
	if g.base {
		name = path.Base(name)
	}
	return doublestar.MatchUnvalidated(g.pattern, name)
}
