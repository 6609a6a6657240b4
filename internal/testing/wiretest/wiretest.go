// Package wiretest tests that values have the same bytes as with the msgpack library.
package wiretest

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/turnlog/turnlog/internal/wire"
)

// Same fails the test unless a value has the bytes that the library writes. Of a struct it also tests the
// zero value, and the value without each of its fields, and without each field of those.
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
}
