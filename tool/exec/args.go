package exec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/tool"
)

// group is arguments that belong together, such as an option and its value: if a place
// in one of them has nothing to hold, all are left out.
type group struct {
	args []template
}

// template is text with places for properties of the input.
type template []piece

// piece is text or, if name is set, a place.
type piece struct {
	text string
	name string
}

// plain is the text of a template without places.
func (t template) plain() string {
	var b strings.Builder
	for _, p := range t {
		b.WriteString(p.text)
	}
	return b.String()
}

func (t template) places() int {
	n := 0
	for _, p := range t {
		if p.name != "" {
			n++
		}
	}
	return n
}

// parseTemplate reads text in which {name} is a place, and {{ and }} are braces.
func parseTemplate(text string) (template, error) {
	var t template
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case (c == '{' || c == '}') && strings.HasPrefix(text[i+1:], string(c)):
			b.WriteByte(c)
			i++
		case c == '}':
			return nil, fmt.Errorf("%q: a } without a {: write }} for the character itself", text)
		case c == '{':
			name, _, ok := strings.Cut(text[i+1:], "}")
			if !ok || name == "" {
				return nil, fmt.Errorf("%q: a { without a name and a }: write {{ for the character itself", text)
			}
			if b.Len() > 0 {
				t = append(t, piece{text: b.String()})
				b.Reset()
			}
			t = append(t, piece{name: name})
			i += len(name) + 1
		default:
			b.WriteByte(c)
		}
	}
	if b.Len() > 0 || len(t) == 0 {
		t = append(t, piece{text: b.String()})
	}
	return t, nil
}

// parseCommand reads the command and what goes to stdin.
func (m *Manifest) parseCommand() error {
	if len(m.Command) == 0 {
		return m.at("$.command", "is missing: name a program and its arguments")
	}
	places := 0
	for i, element := range m.Command {
		path := fmt.Sprintf("$.command[%d]", i)
		list, ok := element.([]any)
		if !ok {
			list = []any{element}
		}
		var g group
		for _, arg := range list {
			t, err := m.template(path, arg)
			if err != nil {
				return err
			}
			places += t.places()
			g.args = append(g.args, t)
		}
		m.command = append(m.command, g)
	}
	if first := m.command[0]; len(first.args) != 1 || first.args[0].places() > 0 || first.args[0].plain() == "" {
		return m.at("$.command[0]", "name the program: it cannot be left to the model")
	}
	if err := m.checkScript(); err != nil {
		return err
	}
	return m.parseStdin(places)
}

// checkScript refuses places in a script for a shell, where what a model gives would be
// read as commands. A script that is one place is the model's to write.
func (m *Manifest) checkScript() error {
	switch filepath.Base(m.command[0].args[0].plain()) {
	case "sh", "ash", "bash", "dash", "ksh", "zsh":
	default:
		return nil
	}
	before := ""
	for i, g := range m.command {
		for _, arg := range g.args {
			script := strings.HasPrefix(before, "-") && !strings.HasPrefix(before, "--") && strings.HasSuffix(before, "c")
			if k := slices.IndexFunc(arg, func(p piece) bool { return p.name != "" }); script && k >= 0 && len(arg) > 1 {
				name := arg[k].name
				return m.at(fmt.Sprintf("$.command[%d]", i), `{%s} would become a part of the script: write "$0" there, and {%s} as the argument behind it`, name, name)
			}
			before = arg.plain()
		}
	}
	return nil
}

func (m *Manifest) parseStdin(places int) error {
	switch {
	case m.Stdin == "" && places > 0:
		m.Stdin = "none"
	case m.Stdin == "":
		m.Stdin = "json"
	case m.Stdin != "json" && m.Stdin != "none":
		t, err := m.template("$.stdin", m.Stdin)
		if err != nil {
			return err
		}
		if t.places() == 0 {
			return m.at("$.stdin", "%q: use json, none, or text with a place such as {text}", m.Stdin)
		}
		m.stdin = t
	}
	return nil
}

// template reads one argument, and checks that its places are properties.
func (m *Manifest) template(path string, arg any) (template, error) {
	switch arg.(type) {
	case string, bool, int, int64, uint64, float64:
	default:
		return nil, m.at(path, "%v: use text, or a list of text", arg)
	}
	text := fmt.Sprint(arg)
	if strings.ContainsRune(text, 0) {
		return nil, m.at(path, "a character NUL cannot be passed to a program")
	}
	t, err := parseTemplate(text)
	if err != nil {
		return nil, m.at(path, "%v", err)
	}
	for _, p := range t {
		list, known := m.lists[p.name]
		switch {
		case p.name == "":
		case !known:
			return nil, m.at(path, "{%s} is no property of the input", p.name)
		case list && len(t) > 1:
			return nil, m.at(path, "{%s} is a list: let it stand alone, as one argument for each element", p.name)
		}
	}
	return t, nil
}

// values are the properties of an input.
type values map[string]any

func readInput(raw json.RawMessage) (values, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return values{}, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // as it was written
	var v values
	if err := d.Decode(&v); err != nil {
		return nil, &tool.Error{Code: tool.CodeInvalidArguments, Message: err.Error()}
	}
	return v, nil
}

// text is a value as one argument.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	raw, _ := json.Marshal(v) // it was JSON
	return string(raw)
}

// argv is the command with the values in their places.
func (m *Manifest) argv(in values) ([]string, error) {
	var out []string
	literal := false // a -- of the manifest came before: nothing is an option any more
	for _, g := range m.command {
		if g.lacks(in) {
			continue
		}
		for _, t := range g.args {
			if t.places() == 0 {
				literal = literal || t.plain() == "--"
				out = append(out, t.plain())
				continue
			}
			filled, err := t.fill(in)
			if err != nil {
				return nil, err
			}
			for _, arg := range filled {
				if err := check(t, arg, literal); err != nil {
					return nil, err
				}
			}
			out = append(out, filled...)
		}
	}
	return out, nil
}

// lacks reports whether a place of the group has nothing to hold.
func (g group) lacks(in values) bool {
	for _, t := range g.args {
		for _, p := range t {
			if v, ok := in[p.name]; p.name != "" && (!ok || v == nil) {
				return true
			}
		}
	}
	return false
}

// fill returns the arguments that a template stands for: one, or one for each element
// of a list.
func (t template) fill(in values) ([]string, error) {
	if list, ok := in[t[0].name].([]any); ok && len(t) == 1 {
		out := make([]string, 0, len(list))
		for _, v := range list {
			out = append(out, text(v))
		}
		return out, nil
	}
	var b strings.Builder
	for _, p := range t {
		b.WriteString(p.text)
		if p.name != "" {
			b.WriteString(text(in[p.name]))
		}
	}
	return []string{b.String()}, nil
}

// check refuses what a program would misunderstand.
func check(t template, arg string, literal bool) error {
	name := t[0].name
	switch {
	case strings.ContainsRune(arg, 0):
		return &tool.Error{Code: tool.CodeInvalidArguments, Message: "a character NUL cannot be passed to a program"}
	case name != "" && !literal && strings.HasPrefix(arg, "-"):
		return &tool.Error{Code: tool.CodeInvalidArguments, Message: fmt.Sprintf("%s: %q begins with -, which the program would take for an option", name, arg)}
	}
	return nil
}

// input is what the program reads; nil: nothing.
func (m *Manifest) input(in values, raw json.RawMessage) ([]byte, error) {
	switch m.Stdin {
	case "none":
		return nil, nil
	case "json":
		if len(bytes.TrimSpace(raw)) == 0 {
			return []byte("{}"), nil
		}
		return raw, nil
	}
	if (group{[]template{m.stdin}}).lacks(in) {
		return []byte{}, nil
	}
	filled, err := m.stdin.fill(in)
	return []byte(strings.Join(filled, "\n")), err
}
