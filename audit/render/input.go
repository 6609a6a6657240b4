package render

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// Input returns all arguments of a tool call as safe lines, for a person who decides about the call. A
// text of several lines is a block. The arguments old and new of an edit are shown as a change.
func Input(style Style, raw json.RawMessage) string {
	s := Style{Color: style.Color, Full: true}
	fields, ok := fieldsOf(raw)
	if !ok {
		return indent + Safe(compact(raw)) + "\n"
	}
	before, after := textOf(fields, "old"), textOf(fields, "new")
	var b strings.Builder
	for _, f := range fields {
		text, isText := f.text()
		switch {
		case before != nil && after != nil && f.name == "old":
			b.WriteString(s.change("old → new", *before, *after))
		case before != nil && after != nil && f.name == "new":
		case isText && strings.Contains(text, "\n"):
			b.WriteString(indent + Safe(f.name) + ":\n" + s.verbatim(text))
		default:
			b.WriteString(indent + Safe(f.name) + ": " + Safe(compact(f.value)) + "\n")
		}
	}
	return b.String()
}

// Change returns how a file's content changes, as safe lines.
func Change(style Style, name, before, after string) string {
	return Style{Color: style.Color, Full: true}.change(name, before, after)
}

// change shows the lines that differ, and three around each. Texts that end the same way need
// no note that the last line is not complete.
func (s Style) change(name, before, after string) string {
	if before != "" && after != "" && strings.HasSuffix(before, "\n") == strings.HasSuffix(after, "\n") {
		before, after = strings.TrimSuffix(before, "\n")+"\n", strings.TrimSuffix(after, "\n")+"\n"
	}
	_, lines, _ := strings.Cut(string(diff.Diff("old", []byte(before), "new", []byte(after))), "+++ new\n")
	var b strings.Builder
	b.WriteString(indent + Safe(name) + ":\n")
	for line := range strings.Lines(lines) {
		line = strings.TrimSuffix(line, "\n")
		text := Safe(line)
		switch line[0] {
		case '+':
			text = s.Good(text)
		case '-':
			text = s.Bad(text)
		case '@':
			text = s.Dim(text)
		}
		b.WriteString(indent + indent + text + "\n")
	}
	return b.String()
}

// verbatim shows each line of a text, with its control characters escaped.
func (s Style) verbatim(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(indent + indent + Safe(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}

// field is a member of an object.
type field struct {
	name  string
	value json.RawMessage
}

func (f field) text() (text string, ok bool) {
	return text, json.Unmarshal(f.value, &text) == nil && string(f.value) != "null"
}

// fieldsOf returns the members of an object in their order, also repeated ones.
func fieldsOf(raw json.RawMessage) (all []field, ok bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		name, err := d.Token()
		text, isText := name.(string)
		f := field{name: text}
		if err != nil || !isText || d.Decode(&f.value) != nil {
			return nil, false
		}
		all = append(all, f)
	}
	return all, true
}

// textOf returns the only member with a name, if it is a text.
func textOf(all []field, name string) (found *string) {
	for _, f := range all {
		if f.name != name {
			continue
		}
		text, ok := f.text()
		if found != nil || !ok {
			return nil
		}
		found = &text
	}
	return found
}
