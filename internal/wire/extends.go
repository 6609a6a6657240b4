package wire

import "bytes"

// Extends reports whether a is the encoding of b with at least one additional field that the encoder of b does not
// know. Check must accept both.
func Extends(a, b []byte) bool {
	x := extension{a: checker{in: a, values: len(a)}, b: checker{in: b, values: len(b)}}
	return x.value() && x.a.at == len(a) && x.b.at == len(b) && x.more
}

// extension passes over two values side by side.
type extension struct {
	a, b checker
	more bool // a has a field that b does not have
}

// value passes over one value of each, and reports whether they differ only in fields of maps.
func (x *extension) value() bool {
	if x.a.at >= len(x.a.in) || x.b.at >= len(x.b.in) {
		return false
	}
	codeA, codeB := x.a.in[x.a.at], x.b.in[x.b.at]
	fromA, fromB := x.a.at, x.b.at
	n, errA := x.a.value()
	m, errB := x.b.value()
	switch {
	case errA != nil || errB != nil:
		return false
	case isMap(codeA) && isMap(codeB):
		return shortest(codeA, n/2) && x.fields(n/2, m/2)
	case !bytes.Equal(x.a.in[fromA:x.a.at], x.b.in[fromB:x.b.at]):
		return false
	}
	for range n {
		if !x.value() {
			return false
		}
	}
	return true
}

// fields passes over the fields of two maps: those of b are fields of a, in the same order, each once.
func (x *extension) fields(n, m int) bool {
	var names [][]byte
	for range n {
		name, ok := x.a.name()
		if !ok {
			return false
		}
		for _, other := range names {
			if bytes.Equal(name, other) {
				return false
			}
		}
		names = append(names, name)
		if m > 0 && bytes.HasPrefix(x.b.in[x.b.at:], name) {
			x.b.at += len(name)
			if m--; !x.value() {
				return false
			}
			continue
		}
		if x.more = true; x.a.one(snapshotDepth) != nil {
			return false
		}
	}
	return m == 0
}

// name passes over the name of a field, and returns its bytes with their header.
func (c *checker) name() ([]byte, bool) {
	from := c.at
	children, err := c.value()
	return c.in[from:c.at], err == nil && children == 0
}

func isMap(code byte) bool {
	return code >= codeFixedMap && code <= codeFixedMap+maxFixedMap || code == codeMap16 || code == codeMap32
}

// shortest reports whether a map's header is the shortest for n fields, as encoders write it.
func shortest(code byte, n int) bool {
	switch {
	case n <= maxFixedMap:
		return code == codeFixedMap|byte(n) //nolint:gosec // it fits
	case n < 1<<16:
		return code == codeMap16
	}
	return code == codeMap32
}
