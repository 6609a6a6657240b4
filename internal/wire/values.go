package wire

import (
	"encoding/binary"
	"math"
	"slices"
)

// The library writes and reads single values as these do.

func (r *Record) takeCode() byte {
	if r.at == len(r.in) {
		r.fail(errShort)
		return codeNil
	}
	code := r.in[r.at]
	r.at++
	return code
}

// take takes n bytes, which stay where they are.
func (r *Record) take(n int) []byte {
	at := r.at
	if n > len(r.in)-at {
		r.fail(errShort)
		return nil
	}
	r.at += n
	return r.in[at:r.at]
}

func (r *Record) takeUint(width int) uint64 {
	b := r.take(width)
	switch len(b) {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.BigEndian.Uint16(b))
	case 4:
		return uint64(binary.BigEndian.Uint32(b))
	case 8:
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *Record) takeLen(width int) int { return int(r.takeUint(width)) }

// takeFields is how many fields of a struct come, -1 for nil, and whether they are
// listed.
func (r *Record) takeFields() (n int, listed bool) {
	if r.at == len(r.in) {
		r.fail(errShort)
		return 0, false
	}
	switch code := r.in[r.at]; {
	case code&^maxFixedMap == codeFixedMap:
		r.at++
		return int(code & maxFixedMap), false
	case code == codeMap16, code == codeMap32:
		r.at++
		return r.takeLen(2 << (code - codeMap16)), false
	}
	n = r.takeListLen()
	return n, n >= 0
}

// putFields writes how many fields follow what is at at.
func (r *Record) putFields(at, n int) {
	if n <= maxFixedMap {
		r.out[at] = codeFixedMap | byte(n)
		return
	}
	r.out[at] = codeMap16
	r.out = slices.Insert(r.out, at+1, byte(n>>8), byte(n))
}

// takeListLen is how many elements come, -1 for nil.
func (r *Record) takeListLen() (n int) {
	switch code := r.takeCode(); {
	case code&^maxFixedArray == codeFixedArray:
		n = int(code & maxFixedArray)
	case code == codeArray16, code == codeArray32:
		n = r.takeLen(2 << (code - codeArray16))
	case code == codeNil:
		return -1
	default:
		r.fail(errKind)
	}
	if n > len(r.in)-r.at {
		r.fail(errShort)
		return 0
	}
	if r.elements -= n; r.elements < 0 {
		r.fail(errTooMany)
		return 0
	}
	return n
}

func (r *Record) putListLen(n int, isNil bool) {
	switch {
	case isNil:
		r.out = append(r.out, codeNil)
	case n <= maxFixedArray:
		r.out = append(r.out, codeFixedArray|byte(n))
	default:
		r.putLen(codeArray16, codeArray32, n)
	}
}

func (r *Record) putLen(code16, code32 byte, n int) {
	if n <= math.MaxUint16 {
		r.out = binary.BigEndian.AppendUint16(append(r.out, code16), uint16(n))
		return
	}
	r.out = binary.BigEndian.AppendUint32(append(r.out, code32), uint32(n))
}

// takeBytes takes a string or bytes, which stay where they are, and nil as nil.
func (r *Record) takeBytes() []byte {
	code := r.takeCode()
	if code&^maxFixedText == codeFixedText {
		return r.take(int(code & maxFixedText))
	}
	switch code {
	case codeText8, codeText16, codeText32:
		return r.take(r.takeLen(1 << (code - codeText8)))
	case codeBin8, codeBin16, codeBin32:
		return r.take(r.takeLen(1 << (code - codeBin8)))
	case codeNil:
	default:
		r.fail(errKind)
	}
	return nil
}

func (r *Record) putBytes(b []byte) {
	switch n := len(b); {
	case b == nil:
		r.out = append(r.out, codeNil)
		return
	case n <= math.MaxUint8:
		r.out = append(r.out, codeBin8, byte(n))
	default:
		r.putLen(codeBin16, codeBin32, n)
	}
	r.out = append(r.out, b...)
}

func (r *Record) putText(s string) {
	switch n := len(s); {
	case n <= maxFixedText:
		r.out = append(r.out, codeFixedText|byte(n))
	case n <= math.MaxUint8:
		r.out = append(r.out, codeText8, byte(n))
	default:
		r.putLen(codeText16, codeText32, n)
	}
	r.out = append(r.out, s...)
}

// takeInt takes a whole number of any width.
func (r *Record) takeInt() int64 {
	code := r.takeCode()
	if code < codeFixedMap || code >= codeFixedMinus {
		return int64(int8(code))
	}
	switch code {
	case codeUint8, codeUint16, codeUint32, codeUint64:
		return int64(r.takeUint(1 << (code - codeUint8)))
	case codeInt8:
		return int64(int8(r.takeUint(1)))
	case codeInt16:
		return int64(int16(r.takeUint(2)))
	case codeInt32:
		return int64(int32(r.takeUint(4)))
	case codeInt64:
		return int64(r.takeUint(8))
	case codeNil:
	default:
		r.fail(errKind)
	}
	return 0
}

// putUint writes n in the fewest bytes.
func (r *Record) putUint(n uint64) {
	switch {
	case n <= math.MaxInt8:
		r.out = append(r.out, byte(n))
	case n <= math.MaxUint8:
		r.out = append(r.out, codeUint8, byte(n))
	case n <= math.MaxUint16:
		r.out = binary.BigEndian.AppendUint16(append(r.out, codeUint16), uint16(n))
	case n <= math.MaxUint32:
		r.out = binary.BigEndian.AppendUint32(append(r.out, codeUint32), uint32(n))
	default:
		r.out = binary.BigEndian.AppendUint64(append(r.out, codeUint64), n)
	}
}

// putMinus writes what is less than zero in the fewest bytes.
func (r *Record) putMinus(n int64) {
	switch {
	case n >= minFixedInt:
		r.out = append(r.out, byte(n))
	case n >= math.MinInt8:
		r.out = append(r.out, codeInt8, byte(n))
	case n >= math.MinInt16:
		r.out = binary.BigEndian.AppendUint16(append(r.out, codeInt16), uint16(n))
	case n >= math.MinInt32:
		r.out = binary.BigEndian.AppendUint32(append(r.out, codeInt32), uint32(n))
	default:
		r.out = binary.BigEndian.AppendUint64(append(r.out, codeInt64), uint64(n))
	}
}

func (r *Record) takeBool() bool {
	switch r.takeCode() {
	case codeTrue:
		return true
	case codeFalse, codeNil:
	default:
		r.fail(errKind)
	}
	return false
}

func (r *Record) putBool(v bool) {
	if v {
		r.out = append(r.out, codeTrue)
		return
	}
	r.out = append(r.out, codeFalse)
}
