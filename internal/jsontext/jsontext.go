// Package jsontext appends values as encoding/json writes them, in a fraction of the time.
//
// As in package wire, an appender is made once for a type and knows its fields. It leaves everything else to
// encoding/json, so the bytes are always the same.
package jsontext

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strconv"
	"sync"
)

type appender func(b []byte, v reflect.Value) ([]byte, error)

var appenders sync.Map //nolint:gochecknoglobals // by type; the same for all callers

// Append appends v as json.Marshal writes it.
func Append(b []byte, v any) ([]byte, error) {
	if v == nil {
		return append(b, "null"...), nil
	}
	r := reflect.ValueOf(v)
	return appenderOf(r.Type())(b, r)
}

func appenderOf(t reflect.Type) appender {
	if a, ok := appenders.Load(t); ok {
		return a.(appender)
	}
	a, _ := appenders.LoadOrStore(t, newAppender(t))
	return a.(appender)
}

// byLibrary leaves a value to encoding/json.
func byLibrary(b []byte, v reflect.Value) ([]byte, error) {
	raw, err := json.Marshal(v.Interface())
	return append(b, raw...), err
}

// plain reports whether a type has no encoding of its own.
func plain(t reflect.Type) bool {
	for _, i := range []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()} {
		if t.Implements(i) || reflect.PointerTo(t).Implements(i) {
			return false
		}
	}
	return true
}

func newAppender(t reflect.Type) appender {
	if t == reflect.TypeFor[json.RawMessage]() {
		return appendRaw
	}
	if !plain(t) {
		return byLibrary
	}
	switch t.Kind() { //nolint:exhaustive // the library writes the others
	case reflect.Bool:
		return func(b []byte, v reflect.Value) ([]byte, error) { return strconv.AppendBool(b, v.Bool()), nil }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(b []byte, v reflect.Value) ([]byte, error) { return strconv.AppendInt(b, v.Int(), 10), nil }
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return func(b []byte, v reflect.Value) ([]byte, error) { return strconv.AppendUint(b, v.Uint(), 10), nil }
	case reflect.String:
		return func(b []byte, v reflect.Value) ([]byte, error) { return String(b, v.String()), nil }
	case reflect.Pointer:
		return appendPointer(t)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 && plain(t.Elem()) {
			return appendBytes
		}
		return appendSlice(t)
	case reflect.Struct:
		if fields, ok := fieldsOf(t); ok {
			return appendStruct(fields)
		}
	}
	return byLibrary
}

// later looks up the appender of an element when it is needed: types may be recursive.
func later(t reflect.Type) func() appender {
	return sync.OnceValue(func() appender { return appenderOf(t) })
}

func appendPointer(t reflect.Type) appender {
	elem := later(t.Elem())
	return func(b []byte, v reflect.Value) ([]byte, error) {
		if v.IsNil() {
			return append(b, "null"...), nil
		}
		return elem()(b, v.Elem())
	}
}

func appendSlice(t reflect.Type) appender {
	elem := later(t.Elem())
	return func(b []byte, v reflect.Value) (_ []byte, err error) {
		if v.IsNil() {
			return append(b, "null"...), nil
		}
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = elem()(b, v.Index(i)); err != nil {
				return b, err
			}
		}
		return append(b, ']'), nil
	}
}

func appendBytes(b []byte, v reflect.Value) ([]byte, error) {
	if v.IsNil() {
		return append(b, "null"...), nil
	}
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, v.Bytes())
	return append(b, '"'), nil
}

// appendRaw appends JSON text. Text that encoding/json would change is left to it.
func appendRaw(b []byte, v reflect.Value) ([]byte, error) {
	raw := v.Bytes()
	for _, c := range raw {
		if c <= ' ' || c > '~' || c == '<' || c == '>' || c == '&' {
			return byLibrary(b, v)
		}
	}
	if !json.Valid(raw) { // also nil
		return byLibrary(b, v)
	}
	return append(b, raw...), nil
}

// String appends a string.
func String(b []byte, s string) []byte {
	if !isPlain(s) {
		raw, _ := json.Marshal(s) // strings have no errors
		return append(b, raw...)
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// isPlain reports whether a string has only ASCII characters that encoding/json does not escape.
func isPlain(s string) bool {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		if !plainEight(uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56) {
			return false
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

// plainEight is isPlain for eight bytes at once. A byte below n sets its high bit in x-n, and no byte of plain text has it.
func plainEight(x uint64) bool {
	const each, high = 0x0101010101010101, 0x8080808080808080
	special := x | (x - ' '*each) | (x + each) // not ASCII; control characters; DEL
	for _, c := range [...]uint64{'"', '\\', '<', '>', '&'} {
		special |= (x ^ c*each) - each // the byte is c
	}
	return special&high == 0
}
