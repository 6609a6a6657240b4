package wire

import (
	"encoding"
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// The library allocates for every field that may be left out, since it checks each for an IsZero method,
// and looks up the encoder of every element. A writer is made once for a type and knows both. It writes the
// same bytes as the library, which a test checks, and leaves types that it does not know to the library.

type writer func(w *Writer, v reflect.Value) error

var (
	writers sync.Map //nolint:gochecknoglobals // by type; the same for all callers

	zeroer = reflect.TypeFor[interface{ IsZero() bool }]() //nolint:gochecknoglobals // constant
	custom = []reflect.Type{                               //nolint:gochecknoglobals // constant
		reflect.TypeFor[msgpack.CustomEncoder](), reflect.TypeFor[msgpack.Marshaler](),
		reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.TextMarshaler](),
		reflect.TypeFor[msgpack.CustomDecoder](), reflect.TypeFor[msgpack.Unmarshaler](),
		reflect.TypeFor[encoding.BinaryUnmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
	}
)

// Value writes v as the library does, with fewer allocations.
func (w *Writer) Value(v any) error {
	if v == nil {
		w.Nil()
		return nil
	}
	r := reflect.ValueOf(v)
	return writerOf(r.Type())(w, r)
}

func writerOf(t reflect.Type) writer {
	if w, ok := writers.Load(t); ok {
		return w.(writer)
	}
	w, _ := writers.LoadOrStore(t, newWriter(t))
	return w.(writer)
}

func writeByLibrary(w *Writer, v reflect.Value) error { return w.Library().EncodeValue(v) }

// plain reports whether a type has no encoding of its own.
func plain(t reflect.Type) bool {
	return !slices.ContainsFunc(custom, func(i reflect.Type) bool { return t.Implements(i) || reflect.PointerTo(t).Implements(i) })
}

func newWriter(t reflect.Type) writer {
	if !plain(t) {
		return writeByLibrary
	}
	switch t.Kind() { //nolint:exhaustive // the library writes the others
	case reflect.Bool:
		return always(func(w *Writer, v reflect.Value) { w.Bool(v.Bool()) })
	case reflect.Int, reflect.Int64:
		return always(func(w *Writer, v reflect.Value) { w.Int(v.Int()) })
	case reflect.Uint, reflect.Uint64:
		return always(func(w *Writer, v reflect.Value) { w.Uint(v.Uint()) })
	case reflect.String:
		return always(func(w *Writer, v reflect.Value) { w.Text(v.String()) })
	case reflect.Pointer:
		return later(t.Elem(), func(w *Writer, v reflect.Value, elem writer) error {
			if v.IsNil() {
				w.Nil()
				return nil
			}
			return elem(w, v.Elem())
		})
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return always(func(w *Writer, v reflect.Value) { w.Bytes(v.Bytes()) })
		}
		return later(t.Elem(), writeSlice)
	case reflect.Struct:
		return newStruct(t)
	}
	return writeByLibrary
}

// always returns a writer that never fails.
func always(write func(*Writer, reflect.Value)) writer {
	return func(w *Writer, v reflect.Value) error {
		write(w, v)
		return nil
	}
}

// later looks up the writer of an element when it is needed: types may be recursive.
func later(elem reflect.Type, write func(*Writer, reflect.Value, writer) error) writer {
	find := sync.OnceValue(func() writer { return writerOf(elem) })
	return func(w *Writer, v reflect.Value) error { return write(w, v, find()) }
}

func writeSlice(w *Writer, v reflect.Value, elem writer) error {
	if v.IsNil() || w.bare && v.Len() == 0 {
		w.Nil()
		return nil
	}
	w.Array(v.Len())
	for i := range v.Len() {
		if err := elem(w, v.Index(i)); err != nil {
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
	read  reader
}

func (f *field) of(v reflect.Value) reflect.Value {
	for _, i := range f.index {
		v = v.Field(i)
	}
	return v
}

// most is how many fields a struct may have. The number of fields is written first, and must take one byte.
const most = 64

func newStruct(t reflect.Type) writer {
	fields, ok := fieldsOf(t)
	if !ok || len(fields) > most {
		return writeByLibrary
	}
	return func(w *Writer, v reflect.Value) error {
		var shown uint64
		n := 0
		for i := range fields {
			if f := &fields[i]; f.empty == nil || !f.empty(f.of(v)) {
				shown |= 1 << i
				n++
			}
		}
		w.Map(n)
		for ; shown != 0; shown &= shown - 1 {
			f := &fields[bits.TrailingZeros64(shown)]
			w.Text(f.name)
			if err := f.write(w, f.of(v)); err != nil {
				return err
			}
		}
		return nil
	}
}

// fieldsOf lists the fields of a struct. ok is false for types that only the library can write.
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
		own := field{name: name, index: f.Index}
		if isScalar(f.Type) {
			own.write, own.read = newWriter(f.Type), newReader(f.Type)
		} else {
			find := readLater(f.Type)
			own.write = later(f.Type, func(w *Writer, v reflect.Value, elem writer) error { return elem(w, v) })
			own.read = func(r *Reader, v reflect.Value) error { return find()(r, v) }
		}
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

// isScalar reports whether values of a type contain no other values.
func isScalar(t reflect.Type) bool {
	switch t.Kind() { //nolint:exhaustive // the others contain some, or are for the library
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64, reflect.String:
		return true
	case reflect.Slice:
		return t.Elem().Kind() == reflect.Uint8
	}
	return false
}

// emptyOf returns the function that reports whether a field is left out, or nil if only the library can tell.
func emptyOf(t reflect.Type) func(reflect.Value) bool {
	if t.Implements(zeroer) {
		if t.Kind() == reflect.Interface {
			return nil
		}
		nilable := t.Kind() == reflect.Pointer || t.Kind() == reflect.Map || t.Kind() == reflect.Slice
		return func(v reflect.Value) bool {
			if nilable && v.IsNil() {
				return true
			}
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
