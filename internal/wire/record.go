package wire

import "errors"

// Record writes structs as the library for msgpack would by their tags, and reads what
// either has written, many times faster. A struct says once which fields it has, in a
// function that both writing and reading call:
//
//	func (c *Cursor) fields(r *wire.Record) {
//		wire.Text(r.Key("l"), &c.Lane)
//		wire.Int(r.Opt("s"), &c.Seq)
//	}
//
// Fields are written in that order. They are read in any, at best in that one, and
// what is not among them is passed over.
type Record struct {
	out []byte // what is written

	reading  bool
	in       []byte
	at       int // how much of it is read
	depth    int // that may still nest
	elements int // of lists, that may still come
	shared   *shared
	err      error

	open open
}

// open is the struct that is being written or read.
type open struct {
	fields   int  // that were written, or that are still to be read
	key, end int  // where the name of the one that is to be read stands
	listed   bool // they come without names, in order
}

// Name is that of a field.
type Name struct {
	record *Record
	name   string
	opt    bool // it is left out if it is zero
}

var (
	errKind   = errors.New("a value of another kind")
	errFields = errors.New("a list of more or fewer values than there are fields")
)

// Key names a field that is always written.
func (r *Record) Key(name string) Name { return Name{record: r, name: name} }

// Opt names a field that is written unless it is zero.
func (r *Record) Opt(name string) Name { return Name{record: r, name: name, opt: true} }

// writes reports whether the field is to be written; its name is then.
func (n Name) writes(zero bool) bool {
	if n.opt && zero {
		return false
	}
	n.record.open.fields++
	n.record.putText(n.name)
	return true
}

// reads reports whether the field is what comes next.
func (n Name) reads() bool {
	r := n.record
	if r.open.fields == 0 {
		if r.open.listed {
			r.fail(errFields)
		}
		return false
	}
	key := r.in[r.open.key:r.open.end]
	return r.open.listed || len(key) == len(n.name) && key[0] == n.name[0] && string(key) == n.name
}

// next goes on to the next field.
func (r *Record) next() {
	if r.open.fields--; r.open.fields > 0 && !r.open.listed {
		key := r.takeBytes()
		r.open.key, r.open.end = r.at-len(key), r.at
	}
}

// fail ends the reading.
func (r *Record) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.at = len(r.in)
}

// nest goes into a struct or a list.
func (r *Record) nest() {
	if r.depth--; r.depth < 0 {
		r.fail(errTooDeep)
	}
}

// writeStruct writes what fields names, and returns how much that was.
func writeStruct[T any](r *Record, v *T, fields func(*T, *Record)) int {
	outer, at := r.open, len(r.out)
	r.open = open{}
	r.out = append(r.out, codeFixedMap)
	fields(v, r)
	n := r.open.fields
	r.open = outer
	r.putFields(at, n)
	return n
}

// readStruct reads into v, which keeps what is not there.
func readStruct[T any](r *Record, v *T, fields func(*T, *Record)) {
	n, listed := r.takeFields()
	if n <= 0 {
		if n < 0 || listed {
			*v = *new(T)
		}
		return
	}
	r.nest()
	outer := r.open
	r.open = open{fields: n + 1, listed: listed}
	r.next()
	for r.open.fields > 0 && r.err == nil {
		before := r.open.fields
		fields(v, r)
		switch {
		case listed && r.open.fields > 0:
			r.fail(errFields)
		case r.open.fields == before: // this release does not know it
			r.skip()
			r.next()
		}
	}
	r.open = outer
	r.depth++
}

// skip passes over one value.
func (r *Record) skip() {
	c := checker{in: r.in, at: r.at, elements: r.elements}
	if err := c.one(r.depth); err != nil {
		r.fail(err)
		return
	}
	r.at, r.elements = c.at, c.elements
}

func writeList[L ~[]T, T any](r *Record, list L, fields func(*T, *Record)) {
	r.putListLen(len(list), list == nil)
	for i := range list {
		writeStruct(r, &list[i], fields)
	}
}

// readList reads into the elements that are there, as the library does: a hostile
// writer can name a field twice, and every reader has to see the same.
func readList[L ~[]T, T any](r *Record, v *L, fields func(*T, *Record)) {
	n := r.takeListLen()
	switch {
	case n < 0:
		*v = nil
		return
	case *v == nil:
		*v = elements[T](r, n)
	case n <= cap(*v):
		*v = (*v)[:n]
	default:
		*v = (*v)[:cap(*v)]
		*v = append(*v, make(L, n-len(*v))...)
	}
	if n == 0 {
		return
	}
	r.nest()
	for i := range *v {
		if r.err != nil {
			return
		}
		readStruct(r, &(*v)[i], fields)
	}
	r.depth++
}
