package fs

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// maxAlternatives bounds what the braces of one pattern can stand for.
const maxAlternatives = 100

// glob is a pattern for paths: * and ? within a name, [a-z], {a,b}, and ** for any
// number of directories. Without a slash it is about the last name of a path.
type glob struct {
	alternatives [][]string // each split at slashes; one element: the last name
}

// parseGlob returns nil for the empty pattern, which means that none was given.
func parseGlob(pattern string) (*glob, error) {
	if pattern == "" {
		return nil, nil
	}
	plain, err := expand(pattern, maxAlternatives)
	if err != nil {
		return nil, err
	}
	g := new(glob)
	for _, p := range plain {
		if _, err := path.Match(p, ""); err != nil {
			return nil, fmt.Errorf("%q is not a pattern: a [ has no ]", pattern)
		}
		p = strings.TrimPrefix(strings.TrimPrefix(p, "./"), "/")
		if strings.HasSuffix(p, "/") {
			p += "**"
		}
		names := strings.Split(p, "/")
		g.alternatives = append(g.alternatives, slices.CompactFunc(names, func(a, b string) bool { return a == "**" && b == "**" }))
	}
	return g, nil
}

// expand writes the braces of a pattern out.
func expand(pattern string, room int) ([]string, error) {
	start := strings.IndexByte(pattern, '{')
	if start < 0 {
		return []string{pattern}, nil
	}
	var parts []string
	depth, from := 0, start+1
	for i := start; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '{':
			depth++
		case c == ',' && depth == 1:
			parts = append(parts, pattern[from:i])
			from = i + 1
		case c == '}':
			if depth--; depth > 0 {
				continue
			}
			return combine(pattern[:start], append(parts, pattern[from:i]), pattern[i+1:], room)
		}
	}
	return nil, fmt.Errorf("%q is not a pattern: a { has no }", pattern)
}

func combine(before string, parts []string, after string, room int) ([]string, error) {
	var out []string
	for _, part := range parts {
		more, err := expand(before+part+after, room-len(out))
		if err != nil {
			return nil, err
		}
		if out = append(out, more...); len(out) > room {
			return nil, errors.New("the braces of the pattern stand for too many others: use fewer")
		}
	}
	return out, nil
}

// match reports whether a path, relative to where the pattern counts from, fits.
func (g *glob) match(name string) bool {
	return slices.ContainsFunc(g.alternatives, func(pattern []string) bool {
		if len(pattern) == 1 && pattern[0] != "**" {
			return matchName(pattern[0], path.Base(name))
		}
		return matchPath(pattern, strings.Split(name, "/"))
	})
}

// matchPath gives the last ** that it passed one name more whenever what follows
// does not fit; that is enough, so the time is bounded by the product of lengths.
func matchPath(pattern, names []string) bool {
	p, n := 0, 0
	star, mark := -1, 0
	for n < len(names) {
		switch {
		case p < len(pattern) && pattern[p] == "**":
			star, mark = p, n
			p++
		case p < len(pattern) && matchName(pattern[p], names[n]):
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == "**" {
		p++
	}
	return p == len(pattern)
}

func matchName(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}
