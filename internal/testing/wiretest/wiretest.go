// Package wiretest tests that values are written and read in the same way as by the msgpack library.
package wiretest

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/internal/wire"
)

// Same fails the test unless a value is written and read in the same way as by the library. For a struct, it also tests the zero
// value, and the value without each of its fields and without each of their fields.
func Same(t *testing.T, v any) {
	t.Helper()
	r := reflect.New(reflect.TypeOf(v)).Elem()
	compare(t, r.Interface())
	r.Set(reflect.ValueOf(v))
	compare(t, v)
	without(t, r, r)
}

// without compares a value without each field of one of its parts.
func without(t *testing.T, whole, part reflect.Value) {
	t.Helper()
	switch part.Kind() { //nolint:exhaustive // the others have no fields
	case reflect.Pointer:
		if !part.IsNil() {
			without(t, whole, part.Elem())
		}
	case reflect.Slice:
		for i := range part.Len() {
			without(t, whole, part.Index(i))
		}
	case reflect.Struct:
		for _, f := range part.Fields() {
			if !f.CanSet() {
				continue
			}
			without(t, whole, f)
			old := reflect.ValueOf(f.Interface())
			f.SetZero()
			compare(t, whole.Interface())
			if old.IsValid() {
				f.Set(old)
			}
		}
	}
}

func compare(t *testing.T, v any) {
	t.Helper()
	want, err := wire.Encode(wire.Entry, func(w *wire.Writer) error { return w.Library().Encode(v) })
	if err != nil {
		t.Fatalf("encode %T: %v", v, err)
	}
	got, err := wire.Encode(wire.Entry, func(w *wire.Writer) error { return w.Value(v) })
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%+v is\n%q, not\n%q, %v", v, got, want, err)
	}
	if v != nil {
		SameRead(t, reflect.TypeOf(v), want)
	}
}

// SameRead fails the test unless reading bytes into a type succeeds exactly if the library succeeds, with an equal value.
func SameRead(t *testing.T, typ reflect.Type, b []byte) {
	t.Helper()
	want, got := reflect.New(typ), reflect.New(typ)
	refused := wire.Safely(func() error { return msgpack.Unmarshal(b, want.Interface()) })
	err := wire.Unmarshal(b, wire.Entry, got.Interface())
	if (err == nil) != (refused == nil) {
		t.Fatalf("%q as %s: %v, the library: %v", b, typ, err, refused)
	}
	if err == nil && !reflect.DeepEqual(got.Interface(), want.Interface()) {
		t.Fatalf("%q is read as\n%+v, not\n%+v", b, got.Elem(), want.Elem())
	}
}
