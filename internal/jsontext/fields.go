package jsontext

import (
	"reflect"
	"slices"
	"strings"
)

// field is a field of a struct, or of a struct that is embedded in it.
type field struct {
	name  string
	key   string // as it is written, with the colon
	index []int
	empty func(reflect.Value) bool // nil: it is never left out
	write appender
}

func (f *field) of(v reflect.Value) reflect.Value {
	for _, i := range f.index {
		v = v.Field(i)
	}
	return v
}

func appendStruct(fields []field) appender {
	return func(b []byte, v reflect.Value) (_ []byte, err error) {
		before := byte('{')
		for i := range fields {
			f := &fields[i]
			value := f.of(v)
			if f.empty != nil && f.empty(value) {
				continue
			}
			b = append(append(b, before), f.key...)
			before = ','
			if b, err = f.write(b, value); err != nil {
				return b, err
			}
		}
		if before == '{' {
			b = append(b, '{')
		}
		return append(b, '}'), nil
	}
}

// fieldsOf lists the fields of a struct in the order in which they are written. ok is false for types that only
// encoding/json can write.
func fieldsOf(t reflect.Type) (fields []field, ok bool) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" && options == "", !f.IsExported() && !f.Anonymous:
			continue
		case options != "" && options != "omitempty":
			return nil, false
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct && plain(f.Type):
			inner, ok := fieldsOf(f.Type)
			if !ok {
				return nil, false
			}
			for _, in := range inner {
				in.index = append(slices.Clone(f.Index), in.index...)
				fields = append(fields, in)
			}
			continue
		case f.Anonymous:
			return nil, false
		case name == "":
			name = f.Name
		}
		own := field{name: name, key: string(String(nil, name)) + ":", index: f.Index}
		if isScalar(f.Type) {
			own.write = newAppender(f.Type)
		} else {
			write := later(f.Type)
			own.write = func(b []byte, v reflect.Value) ([]byte, error) { return write()(b, v) }
		}
		if options == "omitempty" {
			own.empty = emptyOf(f.Type)
		}
		fields = append(fields, own)
	}
	for i, f := range fields {
		if slices.ContainsFunc(fields[:i], func(o field) bool { return o.name == f.name }) {
			return nil, false // one shadows the other
		}
	}
	return fields, true
}

// isScalar reports whether values of a type contain no other values.
func isScalar(t reflect.Type) bool {
	switch t.Kind() { //nolint:exhaustive // the others contain some, or are for encoding/json
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64, reflect.String:
		return true
	case reflect.Slice:
		return t.Elem().Kind() == reflect.Uint8
	}
	return false
}

// emptyOf returns the function that reports whether a field is left out.
func emptyOf(t reflect.Type) func(reflect.Value) bool {
	switch t.Kind() { //nolint:exhaustive // the others are never left out
	case reflect.Map, reflect.Slice, reflect.String, reflect.Array:
		return func(v reflect.Value) bool { return v.Len() == 0 }
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return reflect.Value.IsZero
	case reflect.Float32, reflect.Float64:
		return func(v reflect.Value) bool { return v.Float() == 0 } // also -0
	case reflect.Interface, reflect.Pointer:
		return reflect.Value.IsNil
	}
	return nil
}
