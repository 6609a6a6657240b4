package content

import "strings"

// Matches reports whether a name matches a pattern, in which * matches any characters
// or none. Rules, routes and filters name tools this way.
func Matches(pattern, name string) bool {
	part, rest, more := strings.Cut(pattern, "*")
	if !more {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, part)
	for ok {
		if part, rest, more = strings.Cut(rest, "*"); !more {
			return strings.HasSuffix(name, part)
		}
		_, name, ok = strings.Cut(name, part)
	}
	return false
}
