package wire

// How much is taken at once for the elements of a long list.
const (
	sharedBytes    = 4 << 10
	sharedElements = 64
)

// shared is what the elements of a long list are kept in together: a few large pieces
// of memory instead of many small ones. A piece lasts as long as anything in it.
type shared struct {
	text  string // some of what is read,
	from  int    // from there
	bytes []byte
	slabs []any // *slab[T], one for each type
}

type slab[T any] struct {
	free []T
}

// text is what was taken last, as a string that lasts.
func (r *Record) text(b []byte) string {
	s := r.shared
	if s == nil || len(b) > sharedBytes/8 {
		return string(b)
	}
	from := r.at - len(b)
	if r.at > s.from+len(s.text) {
		s.text, s.from = string(r.in[from:min(from+sharedBytes, len(r.in))]), from
	}
	return s.text[from-s.from : r.at-s.from]
}

// bytes is a copy of b, nil only of nil.
func (r *Record) bytes(b []byte) []byte {
	s := r.shared
	if b == nil {
		return nil
	}
	if s == nil || len(b) > sharedBytes/8 {
		return append(make([]byte, 0, len(b)), b...)
	}
	if len(b) > cap(s.bytes)-len(s.bytes) {
		s.bytes = make([]byte, 0, sharedBytes)
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
