package exec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// argument is fixed text or, if property is set, a placeholder for a property of
// the input.
type argument struct{ text, property string }

// group is arguments that belong together, such as an option and its value. If a
// placeholder has no value, the whole group is left out.
type group []argument

// placeholder returns the name in an argument that is nothing but {name}.
func placeholder(text string) (name string, ok bool) {
	if match := regexp.MustCompile(`^\{([\w.-]+)\}$`).FindStringSubmatch(text); match != nil {
		return match[1], true
	}
	return "", false
}

// parseCommand reads command and stdin.
func (m *manifest) parseCommand() error {
	if len(m.Command) == 0 {
		return m.at("$.command", "is missing: name a program and its arguments")
	}
	placeholders := false
	for i, element := range m.Command {
		path := fmt.Sprintf("$.command[%d]", i)
		list, ok := element.([]any)
		if !ok {
			list = []any{element}
		}
		var g group
		for _, v := range list {
			a, err := m.argument(path, v)
			if err != nil {
				return err
			}
			placeholders = placeholders || a.property != ""
			g = append(g, a)
		}
		m.command = append(m.command, g)
	}
	if first := m.command[0]; len(first) != 1 || first[0].text == "" {
		return m.at("$.command[0]", "name the program: a model cannot choose it")
	}
	if m.Stdin == "" {
		m.Stdin = "json"
		if placeholders {
			m.Stdin = "none"
		}
	}
	if _, ok := placeholder(m.Stdin); m.Stdin != "json" && m.Stdin != "none" && !ok {
		return m.at("$.stdin", "%q: use json, none, or a placeholder such as {text}", m.Stdin)
	}
	in, err := m.argument("$.stdin", m.Stdin)
	m.stdin = in.property
	return err
}

// argument reads one argument and checks that a placeholder names a property.
func (m *manifest) argument(path string, v any) (argument, error) {
	switch v.(type) {
	case string, bool, int, int64, uint64, float64:
	default:
		return argument{}, m.at(path, "%v: use text, or a list of text", v)
	}
	text := fmt.Sprint(v)
	if strings.ContainsRune(text, 0) {
		return argument{}, m.at(path, "an argument cannot hold a NUL character")
	}
	properties, _ := m.Input["properties"].(map[string]any)
	if name, ok := placeholder(text); ok {
		if _, known := properties[name]; !known {
			return argument{}, m.at(path, "{%s} is not a property of the input", name)
		}
		return argument{property: name}, nil
	}
	for name := range properties {
		if strings.Contains(text, "{"+name+"}") {
			return argument{}, m.at(path, "{%s} is only part of the argument: a placeholder is a whole argument, such as [--option, \"{%s}\"]", name, name)
		}
	}
	return argument{text: text}, nil
}

// values are the properties of an input.
type values map[string]json.RawMessage

func readInput(raw json.RawMessage) (values, error) {
	v := values{}
	if len(bytes.TrimSpace(raw)) == 0 {
		return v, nil
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, invalid("%v", err)
	}
	return v, nil
}

// has reports whether a property has a value.
func (v values) has(name string) bool { return len(v[name]) > 0 && string(v[name]) != "null" }

// texts is a value as arguments: one, or one for each element of a list.
func (v values) texts(name string) []string {
	list := []json.RawMessage{v[name]}
	if v[name][0] == '[' {
		_ = json.Unmarshal(v[name], &list) // it was decoded before
	}
	out := make([]string, len(list))
	for i, raw := range list {
		if out[i] = string(raw); raw[0] == '"' {
			_ = json.Unmarshal(raw, &out[i])
		}
	}
	return out
}

// argv is the command with the values in place of the placeholders.
func (m *manifest) argv(in values) ([]string, error) {
	var out []string
	options := true // until the manifest itself says --
	for _, g := range m.command {
		if g.lacks(in) {
			continue
		}
		for _, a := range g {
			if a.property == "" {
				options = options && a.text != "--"
				out = append(out, a.text)
				continue
			}
			for _, text := range in.texts(a.property) {
				if strings.ContainsRune(text, 0) {
					return nil, invalid("%s: an argument cannot hold a NUL character", a.property)
				}
				if options && strings.HasPrefix(text, "-") {
					return nil, invalid("%s: %q begins with -, so the program would read it as an option", a.property, text)
				}
				out = append(out, text)
			}
		}
	}
	return out, nil
}

func (g group) lacks(in values) bool {
	for _, a := range g {
		if a.property != "" && !in.has(a.property) {
			return true
		}
	}
	return false
}

// input is what the program reads from stdin.
func (m *manifest) input(in values, raw json.RawMessage) []byte {
	switch {
	case m.Stdin == "none":
		return nil
	case m.Stdin == "json" && len(bytes.TrimSpace(raw)) == 0:
		return []byte("{}")
	case m.Stdin == "json":
		return raw
	case !in.has(m.stdin):
		return nil
	}
	return []byte(strings.Join(in.texts(m.stdin), "\n"))
}
