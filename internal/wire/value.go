package wire

import (
	"encoding"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// The library allocates for every field that may be left out, since it asks each for its IsZero method,
// and looks up the encoder of every element. A writer is made once for a type, and knows. It writes the
// bytes that the library writes, which a test compares, and leaves to the library what it does not know.

type writer func(e *msgpack.Encoder, v reflect.Value) error

var (
	writers sync.Map //nolint:gochecknoglobals // of each type; the same for everyone

	zeroer = reflect.TypeFor[interface{ IsZero() bool }]() //nolint:gochecknoglobals // constant
	custom = []reflect.Type{                               //nolint:gochecknoglobals // constant
		reflect.TypeFor[msgpack.CustomEncoder](), reflect.TypeFor[msgpack.Marshaler](),
		reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.TextMarshaler](),
	}
)

// Value writes v as e.Encode does, with fewer allocations.
func Value(e *msgpack.Encoder, v any) error {
	if v == nil {
		return e.EncodeNil()
	}
	r := reflect.ValueOf(v)
	return writerOf(r.Type())(e, r)
}

func writerOf(t reflect.Type) writer {
	if w, ok := writers.Load(t); ok {
		return w.(writer)
	}
	w, _ := writers.LoadOrStore(t, newWriter(t))
	return w.(writer)
}

func theirs(e *msgpack.Encoder, v reflect.Value) error { return e.EncodeValue(v) }

// plain reports whether a type has no encoding of its own.
func plain(t reflect.Type) bool {
	return !slices.ContainsFunc(custom, func(i reflect.Type) bool { return t.Implements(i) || reflect.PointerTo(t).Implements(i) })
}

func newWriter(t reflect.Type) writer {
	if !plain(t) {
		return theirs
	}
	switch t.Kind() { //nolint:exhaustive // the library writes the others
	case reflect.Bool:
		return func(e *msgpack.Encoder, v reflect.Value) error { return e.EncodeBool(v.Bool()) }
	case reflect.Int, reflect.Int64:
		return func(e *msgpack.Encoder, v reflect.Value) error { return e.EncodeInt(v.Int()) }
	case reflect.Uint, reflect.Uint64:
		return func(e *msgpack.Encoder, v reflect.Value) error { return e.EncodeUint(v.Uint()) }
	case reflect.String:
		return func(e *msgpack.Encoder, v reflect.Value) error { return e.EncodeString(v.String()) }
	case reflect.Pointer:
		return later(t.Elem(), func(e *msgpack.Encoder, v reflect.Value, elem writer) error {
			if v.IsNil() {
				return e.EncodeNil()
			}
			return elem(e, v.Elem())
		})
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return func(e *msgpack.Encoder, v reflect.Value) error { return e.EncodeBytes(v.Bytes()) }
		}
		return later(t.Elem(), writeSlice)
	case reflect.Struct:
		return newStruct(t)
	}
	return theirs
}

// later looks up the writer of an element when it is needed: types may be recursive.
func later(elem reflect.Type, write func(*msgpack.Encoder, reflect.Value, writer) error) writer {
	find := sync.OnceValue(func() writer { return writerOf(elem) })
	return func(e *msgpack.Encoder, v reflect.Value) error { return write(e, v, find()) }
}

func writeSlice(e *msgpack.Encoder, v reflect.Value, elem writer) error {
	if v.IsNil() {
		return e.EncodeNil()
	}
	if err := e.EncodeArrayLen(v.Len()); err != nil {
		return err
	}
	for i := range v.Len() {
		if err := elem(e, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

// field is a field of a struct, or of a struct that is embedded in it.
type field struct {
	name  string
	index []int
	empty func(reflect.Value) bool // nil: it is never left out
	write writer
}

func (f *field) of(v reflect.Value) reflect.Value {
	for _, i := range f.index {
		v = v.Field(i)
	}
	return v
}

// most is how many fields a struct may have: their number is known before the first is written.
const most = 64

func newStruct(t reflect.Type) writer {
	fields, ok := fieldsOf(t)
	if !ok || len(fields) > most {
		return theirs
	}
	return func(e *msgpack.Encoder, v reflect.Value) error {
		var shown uint64
		n := 0
		for i := range fields {
			if f := &fields[i]; f.empty == nil || !f.empty(f.of(v)) {
				shown |= 1 << i
				n++
			}
		}
		if err := e.EncodeMapLen(n); err != nil {
			return err
		}
		for i := range fields {
			if shown&(1<<i) == 0 {
				continue
			}
			if err := e.EncodeString(fields[i].name); err != nil {
				return err
			}
			if err := fields[i].write(e, fields[i].of(v)); err != nil {
				return err
			}
		}
		return nil
	}
}

// fieldsOf lists the fields of a struct. ok is false for what only the library knows.
func fieldsOf(t reflect.Type) (fields []field, ok bool) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("msgpack"), ",")
		switch {
		case name == "-", !f.IsExported() && !f.Anonymous && f.Name != "_msgpack":
			continue
		case options != "" && options != "omitempty", f.Name == "_msgpack":
			return nil, false
		case f.Anonymous && f.Type.Kind() == reflect.Struct && plain(f.Type):
			inner, ok := fieldsOf(f.Type)
			if !ok || name != "" || options != "" {
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
		own := field{name: name, index: f.Index, write: later(f.Type, func(e *msgpack.Encoder, v reflect.Value, w writer) error { return w(e, v) })}
		if options == "omitempty" {
			if own.empty = emptyOf(f.Type); own.empty == nil {
				return nil, false
			}
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

// emptyOf returns how to tell that a field is left out; nil if only the library knows.
func emptyOf(t reflect.Type) func(reflect.Value) bool {
	switch t.Kind() { //nolint:exhaustive // the others are never nil
	case reflect.Interface, reflect.Map, reflect.Pointer, reflect.Slice:
		if t.Implements(zeroer) {
			return nil
		}
	}
	if t.Implements(zeroer) {
		return func(v reflect.Value) bool {
			z, ok := reflect.TypeAssert[interface{ IsZero() bool }](v)
			return ok && z.IsZero()
		}
	}
	switch t.Kind() { //nolint:exhaustive // the library knows the others
	case reflect.Map, reflect.Slice, reflect.String:
		return func(v reflect.Value) bool { return v.Len() == 0 }
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return reflect.Value.IsZero
	case reflect.Float32, reflect.Float64:
		return func(v reflect.Value) bool { return v.Float() == 0 } // also -0
	case reflect.Pointer:
		return reflect.Value.IsNil
	case reflect.Struct:
		fields, ok := fieldsOf(t)
		if !ok || !plain(t) {
			return nil
		}
		return func(v reflect.Value) bool {
			for i := range fields {
				if f := &fields[i]; f.empty == nil || !f.empty(f.of(v)) {
					return false
				}
			}
			return true
		}
	}
	return nil
}
