package view

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Payload returns the payload of a line, and an error that says why the line cannot be read. The error is
// an io.ErrUnexpectedEOF if the line was cut off. The line is what Append writes if its beginning, shown, is what
// AppendHead and AppendRest write: the rest is the payload, in the only form that it has. Otherwise shown is nil.
func Payload(line []byte) (payload, shown []byte, err error) {
	if b, ok := bytes.CutSuffix(line, []byte(`"}`)); ok {
		if i := bytes.LastIndexByte(b, '"') + 1; bytes.HasSuffix(b[:i], []byte(markPayload)) {
			if payload, err := decode(b[i:]); err == nil {
				return payload, b[:i], nil
			}
		}
	}
	members, err := Parse(line)
	if err != nil {
		return nil, nil, err
	}
	text, ok := members[keyPayload].(string)
	if !ok {
		return nil, nil, fmt.Errorf("it has no %s", keyPayload)
	}
	payload, err = decode([]byte(text))
	return payload, nil, err
}

// Signature returns the signature in a line, which is not part of its payload. It is empty if there is none.
func Signature(line []byte) []byte {
	if !bytes.Contains(line, []byte(keySignature)) {
		return nil
	}
	shown, _ := Parse(line) // Difference reports the error
	text, _ := shown[keySignature].(string)
	return []byte(text)
}

// SignatureAt is Signature for a line that begins with head, as AppendHead writes it. In any other line it may miss the signature.
func SignatureAt(line, head []byte) []byte {
	rest, _ := bytes.CutPrefix(line, head)
	text, _ := bytes.CutPrefix(rest, []byte(markSignature))
	if end := bytes.IndexByte(text, '"'); end >= 0 && len(text) < len(rest) {
		return text[:end]
	}
	return nil
}

// decode accepts only what an encoder writes: no newlines, no bits after the last byte.
func decode(text []byte) ([]byte, error) {
	out := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(out, text)
	if err == nil && base64.StdEncoding.EncodedLen(n) != len(text) { // it skipped newlines
		err = base64.CorruptInputError(0)
	}
	if err != nil {
		return nil, fmt.Errorf("its %s is not base64: %w", keyPayload, err)
	}
	return out[:n], nil
}

// errForm is for JSON text that two readers may understand in different ways.
var errForm = errors.New("not strict JSON")

// maxDepth bounds how deep values are nested, so that no line overflows the stack. Arguments of calls may be 10,000 deep,
// as in encoding/json, inside an event.
const maxDepth = 10_100

// maxValues bounds how many values a line has, which take a hundred bytes each. Only lines that differ from what Append
// writes are parsed.
const maxValues = 2_000_000

// Parse reads a line that is one JSON object in UTF-8, with each key once.
func Parse(line []byte) (map[string]any, error) {
	if !utf8.Valid(line) {
		return nil, fmt.Errorf("%w: not UTF-8", errForm)
	}
	if half := halfCharacter(line); half != "" {
		return nil, fmt.Errorf("%w: %s is an unpaired surrogate", errForm, half)
	}
	d := parser{json.NewDecoder(bytes.NewReader(line)), maxValues}
	d.UseNumber()
	v, err := d.value(maxDepth)
	object, ok := v.(map[string]any)
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("%w: not an object", errForm)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: there is data after the object", errForm)
	}
	return object, nil
}

// halfCharacter returns the first escaped surrogate without the other one of its pair, or "". The decoder takes it for the
// replacement character, so the text of a line could have either.
func halfCharacter(line []byte) string {
	for {
		i := bytes.IndexByte(line, '\\')
		if i < 0 || i+1 == len(line) {
			return ""
		}
		switch first := unit(line[i:]); {
		case !utf16.IsSurrogate(first):
			line = line[i+2:]
		case utf16.DecodeRune(first, unit(line[i+6:])) == unicode.ReplacementChar:
			return string(line[i : i+6])
		default:
			line = line[i+12:]
		}
	}
}

// unit returns the code unit that the text begins with, as an escape of four digits, or 0.
func unit(text []byte) rune {
	if len(text) < 6 || string(text[:2]) != `\u` {
		return 0
	}
	n, _ := strconv.ParseUint(string(text[2:6]), 16, 16) // 0 if they are no digits, which the decoder reports
	return rune(n)
}

// parser reads the values of a line.
type parser struct {
	*json.Decoder

	left int // how many values it may still read
}

//nolint:wrapcheck // the caller says which line it is
func (p *parser) value(depth int) (any, error) {
	t, err := p.Token()
	p.left--
	switch {
	case err != nil:
		return nil, err
	case depth == 0:
		return nil, fmt.Errorf("%w: nested too deeply", errForm)
	case p.left < 0:
		return nil, fmt.Errorf("%w: more than %d values in a line, which no export writes: export the session again", errForm, maxValues)
	}
	switch t {
	case json.Delim('{'):
		return p.object(depth - 1)
	case json.Delim('['):
		list := []any{}
		for p.More() {
			v, err := p.value(depth - 1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := p.Token()
		return list, err
	}
	return t, nil
}

//nolint:wrapcheck // likewise
func (p *parser) object(depth int) (any, error) {
	out := map[string]any{}
	for p.More() {
		key, err := p.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string) // the decoder accepts no other key
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%w: the key %q occurs twice", errForm, name)
		}
		if out[name], err = p.value(depth); err != nil {
			return nil, err
		}
	}
	_, err := p.Token()
	return out, err
}

// keys returns the keys of a line, in the order in which differences are reported.
func keys() []string {
	return []string{"hash", "seq", "session", "prev", "at", "epoch", "cause", keySignature, "unread", "kinds", "sealed", "events", keyPayload}
}

// Difference says where the shown line differs from the real one, or returns "" if both are the same. This
// release cannot show all fields of an entry from a later release. For such an entry, loose compares only
// what does not depend on its events.
func Difference(shown, real []byte, loose bool) string {
	if bytes.Equal(shown, real) {
		return ""
	}
	a, err := Parse(shown)
	if err != nil {
		return err.Error()
	}
	b, err := Parse(real)
	if err != nil {
		return err.Error()
	}
	for _, key := range keys() {
		if loose && (key == "unread" || key == "kinds" || key == "events") {
			continue
		}
		if problem := differ(key, a, b); problem != "" {
			return problem
		}
	}
	for key := range a {
		if !slices.Contains(keys(), key) {
			return fmt.Sprintf("%q: the view has this key, which no export has", key)
		}
	}
	return ""
}

// differ compares the values of a key.
func differ(key string, shown, real map[string]any) string {
	a, has := shown[key]
	b, should := real[key]
	list, isList := a.([]any)
	want, _ := b.([]any)
	switch {
	case !has && !should:
	case !has:
		return key + ": the view lacks it"
	case !should && key == "unread":
		return "unread: the view says nothing about an entry that can be read: it was emptied, or an earlier release exported it"
	case !should:
		return fmt.Sprintf("%s: the view has %v, but the payload has none: one of them was changed", key, a)
	case reflect.DeepEqual(a, b):
	case key != "events" || !isList:
		return fmt.Sprintf("%s: the view has %v, the payload %v: one of them was changed", key, a, b)
	case len(list) != len(want):
		return fmt.Sprintf("%s: the view has %d, the payload %d", key, len(list), len(want))
	default:
		n := 0
		for reflect.DeepEqual(list[n], want[n]) { // they differ somewhere
			n++
		}
		kind, _ := want[n].(map[string]any)
		return fmt.Sprintf("%s: the view of event %d, a %v, differs from the payload", key, n+1, kind["kind"])
	}
	return ""
}
