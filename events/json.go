package events

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"

	"github.com/turnlog/turnlog/internal/jsontext"
)

// MarshalEvent returns e as a JSON object for people: its kind, then its fields. The
// stored bytes are authoritative. But exports contain this view and are compared, so
// new fields must be omitted when they are zero.
//
// A raw value that is not JSON, such as malformed arguments, becomes a string. NaN and
// infinities become 0.
func MarshalEvent(e Event) (json.RawMessage, error) { return AppendEvent(nil, e) }

// AppendEvent appends the result of MarshalEvent to b.
func AppendEvent(b []byte, e Event) ([]byte, error) {
	b = append(b, `{"kind":`...)
	b = jsontext.String(b, string(KindOf(e)))
	fields := len(b)
	b, err := appendView(b, e)
	switch {
	case err != nil:
		return b, fmt.Errorf("render %s: %w", KindOf(e), err)
	case len(b) == fields+len("{}"):
		return append(b[:fields], '}'), nil
	}
	b[fields] = ','
	return b, nil
}

// MarshalView returns the JSON of a value that contains values of events. They need not be valid JSON: models
// may write anything as arguments. Structs must have only exported fields.
func MarshalView(v any) (json.RawMessage, error) { return appendView(nil, v) }

func appendView(b []byte, v any) ([]byte, error) {
	out, err := jsontext.Append(b, v)
	if err != nil {
		out, err = jsontext.Append(b, presentable(reflect.ValueOf(v)).Interface())
	}
	if err != nil {
		return b, fmt.Errorf("marshal %T: %w", v, err)
	}
	return out, nil
}

// presentable returns a deep copy of v that encoding/json accepts.
func presentable(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(presentable(v.Elem()))
		}
	case reflect.Slice:
		switch {
		case v.Type() == reflect.TypeFor[json.RawMessage]():
			out.SetBytes(presentableJSON(v.Bytes()))
		case v.IsNil() || v.Type().Elem().Kind() == reflect.Uint8:
			out.Set(v)
		default:
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(presentable(v.Index(i)))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			out.Field(i).Set(presentable(v.Field(i)))
		}
	case reflect.Float64:
		if f := v.Float(); !math.IsNaN(f) && !math.IsInf(f, 0) {
			out.SetFloat(f)
		}
	default:
		out.Set(v)
	}
	return out
}

func presentableJSON(raw []byte) []byte {
	if len(raw) == 0 || json.Valid(raw) {
		return raw
	}
	quoted, err := json.Marshal(string(raw))
	if err != nil {
		return []byte("null")
	}
	return quoted
}
