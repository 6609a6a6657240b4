package wire

// Text is a field of text.
func Text[S ~string](n Name, v *S) {
	r := n.record
	switch {
	case r.reading:
		if n.reads() {
			*v = S(r.text(r.takeBytes()))
			r.next()
		}
	case n.writes(*v == ""):
		r.putText(string(*v))
	}
}

// Bytes is a field of bytes. Nil and none are two things, unless it is optional.
func Bytes[B ~[]byte](n Name, v *B) {
	r := n.record
	switch {
	case r.reading:
		if n.reads() {
			*v = r.bytes(r.takeBytes())
			r.next()
		}
	case n.writes(len(*v) == 0):
		r.putBytes(*v)
	}
}

// Int is a field with a whole number.
func Int[I ~int | ~int64 | ~uint64](n Name, v *I) {
	r := n.record
	switch {
	case r.reading:
		if n.reads() {
			*v = I(r.takeInt())
			r.next()
		}
	case !n.writes(*v == 0):
	case *v < 0:
		r.putMinus(int64(*v))
	default:
		r.putUint(uint64(*v))
	}
}

// Bool is a field that is true or false.
func Bool(n Name, v *bool) {
	r := n.record
	switch {
	case r.reading:
		if n.reads() {
			*v = r.takeBool()
			r.next()
		}
	case n.writes(!*v):
		r.putBool(*v)
	}
}

// Struct is a field with a struct. It is zero if no field of it is written.
func Struct[T any](n Name, v *T, fields func(*T, *Record)) {
	r := n.record
	if r.reading {
		if n.reads() {
			readStruct(r, v, fields)
			r.next()
		}
		return
	}
	before := len(r.out)
	n.writes(false)
	if writeStruct(r, v, fields) == 0 && n.opt {
		r.out = r.out[:before]
		r.open.fields--
	}
}

// Pointer is a field with a struct that may be absent.
func Pointer[T any](n Name, v **T, fields func(*T, *Record)) {
	r := n.record
	switch {
	case r.reading:
		if n.reads() {
			readPointer(r, v, fields)
			r.next()
		}
	case !n.writes(*v == nil):
	case *v == nil:
		r.out = append(r.out, codeNil)
	default:
		writeStruct(r, *v, fields)
	}
}

func readPointer[T any](r *Record, v **T, fields func(*T, *Record)) {
	if r.at < len(r.in) && r.in[r.at] == codeNil {
		r.at++
		*v = nil
		return
	}
	if *v == nil {
		*v = &elements[T](r, 1)[0]
	}
	readStruct(r, *v, fields)
}

// List is a field with any number of structs. Nil and none are two things, unless it
// is optional.
func List[L ~[]T, T any](n Name, v *L, fields func(*T, *Record)) {
	r := n.record
	switch {
	case r.reading:
		if n.reads() {
			readList(r, v, fields)
			r.next()
		}
	case n.writes(len(*v) == 0):
		writeList(r, *v, fields)
	}
}

// Texts is a field with any number of texts. Nil and none are two things, unless it is
// optional.
func Texts(n Name, v *[]string) {
	r := n.record
	switch {
	case r.reading:
		if n.reads() {
			readTexts(r, v)
			r.next()
		}
	case n.writes(len(*v) == 0):
		r.putListLen(len(*v), *v == nil)
		for _, s := range *v {
			r.putText(s)
		}
	}
}

// readTexts leaves v as it is for nil, as the library does.
func readTexts(r *Record, v *[]string) {
	n := r.takeListLen()
	if n < 0 {
		return
	}
	if n > 0 && r.depth == 0 {
		r.fail(errTooDeep)
	}
	*v = make([]string, n)
	for i := range *v {
		(*v)[i] = r.text(r.takeBytes())
	}
}
