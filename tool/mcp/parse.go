package mcp

import (
	"errors"
	"fmt"
	"strings"
)

// Parse reads a server from a command line: NAME=COMMAND ARGS or NAME=URL. Blanks separate
// the words of a command; quotes and backslashes work as in a shell, but nothing is
// expanded and no shell runs.
func Parse(text string) (Server, error) {
	name, rest, ok := strings.Cut(text, "=")
	rest = strings.TrimSpace(rest)
	if !ok || rest == "" {
		return Server{}, fmt.Errorf("%q: use NAME=COMMAND ARGS or NAME=URL", text)
	}
	s := Server{Name: strings.TrimSpace(name)}
	if strings.HasPrefix(rest, "http://") || strings.HasPrefix(rest, "https://") {
		s.URL = rest
		return s, s.Check()
	}
	words, err := split(rest)
	if err != nil {
		return Server{}, fmt.Errorf("server %s: %w", s.Name, err)
	}
	if strings.Contains(words[0], "://") {
		return Server{}, fmt.Errorf("server %s: the URL must be like https://host/path", s.Name)
	}
	s.Command = words
	return s, s.Check()
}

// split splits a command into words.
func split(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune // the open quote; 0: none
	begun, escaped := false, false
	for _, c := range text {
		switch {
		case escaped:
			if quote == '"' && c != '"' && c != '\\' {
				word.WriteRune('\\')
			}
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, begun = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, begun = c, true
		case quote == 0 && (c == ' ' || c == '\t' || c == '\n'):
			if begun {
				words = append(words, word.String())
				word.Reset()
			}
			begun = false
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	switch {
	case quote != 0:
		return nil, fmt.Errorf("a %c is not closed", quote)
	case escaped:
		return nil, errors.New("the last character is a backslash")
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}
