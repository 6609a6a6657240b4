package fs

import "strings"

// plainClasses rewrites the classes of characters in a pattern of git as path.Match
// understands them: [!a] as [^a], []a] and [a-] with the odd character escaped, and
// [[:digit:]] written out.
func plainClasses(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			b.WriteString(pattern[i : i+2])
			i += 2
		case c == '[':
			class, n := plainClass(pattern[i:])
			b.WriteString(class)
			i += n
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String()
}

// plainClass rewrites the class that s begins with, n bytes long. One that has no end
// stays as it is, and matches nothing.
func plainClass(s string) (class string, n int) {
	var b strings.Builder
	b.WriteByte('[')
	i := 1
	if i < len(s) && (s[i] == '!' || s[i] == '^') {
		b.WriteByte('^')
		i++
	}
	for first := true; i < len(s); first = false {
		switch rest := s[i:]; {
		case rest[0] == ']' && !first:
			b.WriteByte(']')
			return b.String(), i + 1
		case rest[0] == '\\' && len(rest) > 1:
			b.WriteString(rest[:2])
			i += 2
		case strings.HasPrefix(rest, "[:") && strings.Contains(rest, ":]"):
			name, _, _ := strings.Cut(rest[2:], ":]")
			b.WriteString(namedClass(name))
			i += len(name) + len("[::]")
		case rest[0] == ']', rest[0] == '[', rest[0] == '-' && (first || strings.HasPrefix(rest, "-]")):
			b.WriteByte('\\')
			fallthrough
		default:
			b.WriteByte(rest[0])
			i++
		}
	}
	return s, len(s)
}

// namedClass is what is in [:name:]; nothing if there is none of that name.
func namedClass(name string) string {
	switch name {
	case "alnum":
		return "a-zA-Z0-9"
	case "alpha":
		return "a-zA-Z"
	case "blank":
		return " \t"
	case "cntrl":
		return "\x00-\x1f\x7f"
	case "digit":
		return "0-9"
	case "graph":
		return "!-~"
	case "lower":
		return "a-z"
	case "print":
		return " -~"
	case "punct":
		return "!-/:-@\\[-`{-~"
	case "space":
		return " \t-\r"
	case "upper":
		return "A-Z"
	case "xdigit":
		return "0-9a-fA-F"
	}
	return ""
}
