package wire

import "strings"

// How much is taken at once for the elements of a long list.
const (
	sharedText     = 4 << 10
	sharedElements = 64
)

// shared is what the elements of a long list are kept in together: a few large pieces
// of memory instead of many small ones. A piece lasts as long as anything in it.
type shared struct {
	text  strings.Builder
	bytes []byte
	slabs []any // *slab[T], one for each type
}

type slab[T any] struct {
	free []T
}

// text is b as a string of its own.
func (r *Record) text(b []byte) string {
	s := r.shared
	if s == nil || len(b) > sharedText/8 {
		return string(b)
	}
	if len(b) > s.text.Cap()-s.text.Len() {
		s.text.Reset()
		s.text.Grow(sharedText)
	}
	at := s.text.Len()
	_, _ = s.text.Write(b) // never fails
	return s.text.String()[at:]
}

// bytes is a copy of b, nil only of nil.
func (r *Record) bytes(b []byte) []byte {
	s := r.shared
	if b == nil {
		return nil
	}
	if s == nil || len(b) > sharedText/8 {
		return append(make([]byte, 0, len(b)), b...)
	}
	if len(b) > cap(s.bytes)-len(s.bytes) {
		s.bytes = make([]byte, 0, sharedText)
	}
	at := len(s.bytes)
	s.bytes = append(s.bytes, b...)
	return s.bytes[at:len(s.bytes):len(s.bytes)]
}

// elements returns n zero values.
func elements[T any](r *Record, n int) []T {
	if r.shared == nil || n == 0 || n > sharedElements/8 {
		return make([]T, n)
	}
	s := slabOf[T](r.shared)
	if n > len(s.free) {
		s.free = make([]T, sharedElements)
	}
	list := s.free[:n:n]
	s.free = s.free[n:]
	return list
}

func slabOf[T any](s *shared) *slab[T] {
	for _, x := range s.slabs {
		if x, ok := x.(*slab[T]); ok {
			return x
		}
	}
	x := new(slab[T])
	s.slabs = append(s.slabs, x)
	return x
}
