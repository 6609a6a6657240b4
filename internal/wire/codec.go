package wire

import "bytes"

// Encode returns the bytes that write writes, in the compact forms. It returns ErrMalformed for a value
// that Decode would refuse. In a snapshot, empty slices are written as nil, so a state that was folded from
// decoded entries has the same bytes as one that was folded live.
func Encode(p Payload, write func(*Writer) error) ([]byte, error) {
	w := idle.Get().(*Writer) //nolint:forcetypeassert // it has no others
	defer w.release()
	w.bare = p == Snapshot
	if err := write(w); err != nil {
		return nil, err
	}
	b := w.written()
	return b, Check(b, p)
}

// Writes reports whether write writes exactly b, which Check accepted: nothing is copied, or checked again.
func Writes(b []byte, write func(*Writer) error) bool {
	w := idle.Get().(*Writer) //nolint:forcetypeassert // it has no others
	defer w.release()
	return write(w) == nil && bytes.Equal(w.b, b)
}

// Marshal encodes v.
func Marshal(v any, p Payload) ([]byte, error) {
	return Encode(p, func(w *Writer) error { return w.Value(v) })
}

// Decode calls read with a reader of b, if Check accepts b. The reader is valid until read returns.
func Decode(b []byte, p Payload, read func(*Reader) error) error {
	if err := Check(b, p); err != nil {
		return err
	}
	r := idleReaders.Get().(*Reader) //nolint:forcetypeassert // it has no others
	r.in, r.at = b, 0
	err := read(r)
	r.in = nil
	idleReaders.Put(r)
	return err
}

// Unmarshal decodes b into what v points to, if Check accepts b.
func Unmarshal(b []byte, p Payload, v any) error {
	return Decode(b, p, func(r *Reader) error { return r.Value(v) })
}
