package exec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// group is a list of arguments that belong together, such as an option and its value. An argument is
// fixed text or a placeholder for a property of the input. If a placeholder has no value, the whole
// group is left out.
type group []string

// placeholder returns the name in an argument that is exactly {name}.
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
		list, ok := element.([]any)
		if !ok {
			list = []any{element}
		}
		var g group
		for _, v := range list {
			a, err := m.argument(fmt.Sprintf("$.command[%d]", i), v)
			if err != nil {
				return err
			}
			_, variable := placeholder(a)
			placeholders = placeholders || variable
			g = append(g, a)
		}
		m.command = append(m.command, g)
	}
	first := m.command[0]
	if len(first) != 1 || first[0] == "" {
		return m.at("$.command[0]", "name the program: a model cannot choose it")
	}
	if _, variable := placeholder(first[0]); variable {
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
	_, err := m.argument("$.stdin", m.Stdin)
	return err
}

// argument reads one argument and checks that a placeholder names a property.
func (m *manifest) argument(path string, v any) (string, error) {
	switch v.(type) {
	case string, bool, int, int64, uint64, float64:
	default:
		return "", m.at(path, "%v: use text, or a list of text", v)
	}
	text := fmt.Sprint(v)
	if hasNUL(text) {
		return "", m.at(path, "an argument cannot hold a NUL character")
	}
	properties, _ := m.Input["properties"].(map[string]any)
	if name, ok := placeholder(text); ok {
		if _, known := properties[name]; !known {
			return "", m.at(path, "{%s} is not a property of the input", name)
		}
		return text, nil
	}
	for name := range properties {
		if strings.Contains(text, "{"+name+"}") {
			return "", m.at(path, "{%s} is only part of the argument: a placeholder is a whole argument, such as [--option, \"{%s}\"]", name, name)
		}
	}
	return text, nil
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

func (v values) has(name string) bool { return len(v[name]) > 0 && string(v[name]) != "null" }

// texts returns a value as arguments: one, or one for each element of a list.
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

// argv returns the command with the placeholders replaced by values.
func (m *manifest) argv(in values) ([]string, error) {
	var out []string
	options := true // until the manifest itself says --
	for _, g := range m.command {
		if slices.ContainsFunc(g, func(a string) bool { name, variable := placeholder(a); return variable && !in.has(name) }) {
			continue
		}
		for _, a := range g {
			name, variable := placeholder(a)
			if !variable {
				options = options && a != "--"
				out = append(out, a)
				continue
			}
			for _, text := range in.texts(name) {
				if hasNUL(text) {
					return nil, invalid("%s: an argument cannot hold a NUL character", name)
				}
				if options && strings.HasPrefix(text, "-") {
					return nil, invalid("%s: %q begins with -, so the program would read it as an option", name, text)
				}
				out = append(out, text)
			}
		}
	}
	return out, nil
}

// input returns what the program reads from stdin.
func (m *manifest) input(in values, raw json.RawMessage) []byte {
	switch m.Stdin {
	case "none":
		return nil
	case "json":
		return raw
	}
	name, _ := placeholder(m.Stdin)
	if !in.has(name) {
		return nil
	}
	return []byte(strings.Join(in.texts(name), "\n"))
}
