package wire

import (
	"errors"
	"reflect"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// reader reads a value in the same way as the library, and leaves types that it does not know to the library. Like a
// writer, it is made once for a type.
type reader func(r *Reader, v reflect.Value) error

// typed is what reads values of a type.
type typed struct {
	read    reader
	scratch sync.Pool // of pointers to zero values
}

var readers sync.Map //nolint:gochecknoglobals // by type; the same for all callers

// Value reads a value into what to points to.
func (r *Reader) Value(to any) error {
	v := reflect.ValueOf(to)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return errors.New("the target must be a pointer")
	}
	return readerOf(v.Type().Elem()).read(r, v.Elem())
}

// Values reads values one after the other, each into what a pointer points to.
func (r *Reader) Values(to ...any) error {
	for _, v := range to {
		if err := r.Value(v); err != nil {
			return err
		}
	}
	return nil
}

// Of reads a value of a type.
func (r *Reader) Of(t reflect.Type) (any, error) {
	of := readerOf(t)
	p := of.scratch.Get()
	v := reflect.ValueOf(p).Elem()
	err := of.read(r, v)
	out := v.Interface() // a copy
	v.SetZero()
	of.scratch.Put(p)
	return out, err
}

func readerOf(t reflect.Type) *typed {
	if r, ok := readers.Load(t); ok {
		return r.(*typed)
	}
	of := &typed{read: newReader(t)}
	of.scratch.New = func() any { return reflect.New(t).Interface() }
	r, _ := readers.LoadOrStore(t, of)
	return r.(*typed)
}

func byLibrary(r *Reader, v reflect.Value) error {
	return r.library(func(d *msgpack.Decoder) error { return d.DecodeValue(v) })
}

func newReader(t reflect.Type) reader {
	if !plain(t) {
		return byLibrary
	}
	switch t.Kind() { //nolint:exhaustive // the library reads the others
	case reflect.Bool:
		return setting((*Reader).Bool, reflect.Value.SetBool)
	case reflect.Int, reflect.Int64:
		return setting((*Reader).Int, reflect.Value.SetInt)
	case reflect.Uint, reflect.Uint64:
		return setting((*Reader).Uint, reflect.Value.SetUint)
	case reflect.String:
		return setting((*Reader).Text, reflect.Value.SetString)
	case reflect.Pointer:
		return readPointer(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return setting((*Reader).Bytes, reflect.Value.SetBytes)
		}
		return readSlice(t.Elem())
	case reflect.Struct:
		if fields, ok := fieldsOf(t); ok {
			return readStruct(fields)
		}
	}
	return byLibrary
}

// setting returns a reader that sets what read returns.
func setting[T any](read func(*Reader) (T, error), set func(reflect.Value, T)) reader {
	return func(r *Reader, v reflect.Value) error {
		x, err := read(r)
		if err == nil {
			set(v, x)
		}
		return err
	}
}

// readLater looks up the reader of an element when it is needed: types may be recursive.
func readLater(elem reflect.Type) func() reader {
	return sync.OnceValue(func() reader { return readerOf(elem).read })
}

func readPointer(elem reflect.Type) reader {
	find := readLater(elem)
	return func(r *Reader, v reflect.Value) error {
		switch {
		case r.next() == codeNil:
			v.SetZero()
			return r.Skip()
		case v.IsNil():
			v.Set(reflect.New(elem))
		}
		return find()(r, v.Elem())
	}
}

func readSlice(elem reflect.Type) reader {
	find := readLater(elem)
	return func(r *Reader, v reflect.Value) error {
		n, err := r.Array()
		switch {
		case err != nil:
			return err
		case n < 0:
			v.SetZero()
			return nil
		case n > len(r.in)-r.at:
			return errShort
		case n == 0 && v.IsNil():
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		case v.Cap() < n:
			v.Grow(n - v.Len())
		}
		v.SetLen(n)
		read := find()
		for i := range n {
			if err := read(r, v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
}

func readStruct(fields []field) reader {
	return func(r *Reader, v reflect.Value) error {
		if isArray(r.next()) { // as no writer of this module writes it
			return byLibrary(r, v)
		}
		n, err := r.Map()
		if n < 0 {
			v.SetZero()
		}
		next := 0
		for ; n > 0 && err == nil; n-- {
			var name []byte
			if name, err = r.content(); err != nil {
				break
			}
			var f *field
			if f, next = find(fields, name, next); f != nil {
				err = f.read(r, f.of(v))
			} else {
				err = r.Skip()
			}
		}
		return err
	}
}

// find returns the field with a name, or nil, and the index of the next field in the order in which encoders write them.
func find(fields []field, name []byte, from int) (*field, int) {
	for i := range fields {
		if at := (from + i) % len(fields); fields[at].name == string(name) {
			return &fields[at], at + 1
		}
	}
	return nil, from
}
