package render

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// raw shows the events of an entry that this release cannot decode: the kinds and fields as stored,
// or else the bytes.
func (s Style) raw(payload []byte) []eventLine {
	var fields []any
	dec := msgpack.NewDecoder(bytes.NewReader(payload))
	if err := dec.Decode(&fields); err != nil || len(fields) == 0 {
		return []eventLine{s.bytesOf(payload)}
	}
	pairs, ok := fields[len(fields)-1].([]any)
	if !ok || len(pairs) < 2 {
		return []eventLine{s.bytesOf(payload)}
	}
	var lines []eventLine
	for i := 0; i+1 < len(pairs); i += 2 {
		text, err := json.Marshal(presentable(pairs[i+1]))
		if err != nil {
			return []eventLine{s.bytesOf(payload)}
		}
		lines = append(lines, eventLine{fmt.Sprint(pairs[i]), s.Dim("raw") + " " + s.Line(string(text))})
	}
	return lines
}

// sealed shows the events of an entry whose key is not here: of most only the kinds.
func (s Style) sealed(e events.Entry) []eventLine {
	clear := e.Events
	var lines []eventLine
	for _, k := range e.Kinds() {
		if len(clear) > 0 && events.KindOf(clear[0]) == k {
			lines = append(lines, eventLine{string(k), s.detail(clear[0])})
			clear = clear[1:]
			continue
		}
		lines = append(lines, eventLine{string(k), s.Dim("sealed")})
	}
	return lines
}

// why shows why an entry cannot be decoded. For unknown kinds their names are enough.
func (s Style) why(err error) []eventLine {
	format, newer := errors.AsType[*events.FormatError](err)
	switch {
	case newer:
		return []eventLine{{"newer_format", s.Bad(s.Line(format.Error()))}}
	case errors.Is(err, journal.ErrDamaged):
		return []eventLine{{"damaged", s.Bad(s.Line(err.Error()))}}
	}
	return nil
}

func (s Style) bytesOf(payload []byte) eventLine {
	return eventLine{"unreadable", s.Dim("raw") + " " + s.Line(hex.EncodeToString(payload))}
}

// presentable converts stored bytes for JSON: valid JSON stays JSON, and text becomes a string.
func presentable(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = presentable(v[key])
		}
	case []any:
		for i := range v {
			v[i] = presentable(v[i])
		}
	case []byte:
		switch {
		case json.Valid(v):
			return json.RawMessage(v)
		case utf8.Valid(v):
			return string(v)
		}
		return hex.EncodeToString(v)
	case map[any]any:
		return fmt.Sprint(v)
	}
	return v
}
