package wire_test

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/internal/testing/wiretest"
	"github.com/turnlog/turnlog/internal/wire"
)

type (
	word string

	// marked has an encoding of its own.
	marked struct{ N int }

	// measured knows when it is left out.
	measured struct{ N int }

	inner struct {
		A int  `msgpack:"a,omitempty"`
		B bool `msgpack:"b"`
	}

	tree struct {
		Left, Right *tree   `msgpack:",omitempty"`
		Leaves      []*tree `msgpack:"l,omitempty"`
	}

	outer struct {
		inner

		Word     word            `msgpack:"w,omitempty"`
		Words    []word          `msgpack:"ws"`
		Texts    []string        `msgpack:"ts,omitempty"`
		Raw      json.RawMessage `msgpack:"r,omitempty"`
		None     []byte          `msgpack:"n"`
		Small    int8            `msgpack:"s,omitempty"`
		Big      uint64          `msgpack:"b2,omitempty"`
		Share    float64         `msgpack:"f,omitempty"`
		Took     time.Duration   `msgpack:"d,omitempty"`
		Any      map[string]any  `msgpack:"m,omitempty"`
		Marked   marked          `msgpack:"k"`
		Measured measured        `msgpack:"z,omitempty"`
		Pointed  *measured       `msgpack:"zp,omitempty"`
		Struct   inner           `msgpack:"i,omitempty"`
		Pointer  *inner          `msgpack:"p,omitempty"`
		Tree     tree            `msgpack:"t"`
		Left     string          `msgpack:"-"`
		hidden   int
	}

	// odd has what only the library knows.
	odd struct {
		Any   any    `msgpack:"a,omitempty"`
		At    [3]int `msgpack:"t,omitempty"`
		Alias int    `msgpack:"x,alias:y"`
	}

	ordered struct {
		_msgpack struct{} `msgpack:",as_array"` //nolint:unused // an option for the library
		A, B     int
	}
)

func (m marked) EncodeMsgpack(e *msgpack.Encoder) error { return e.EncodeInt(int64(m.N) + 1) }
func (m *marked) DecodeMsgpack(d *msgpack.Decoder) error {
	n, err := d.DecodeInt()
	m.N = n - 1
	return err
}
func (m measured) IsZero() bool { return m.N == 7 }

func TestValuesHaveTheBytesOfTheLibrary(t *testing.T) {
	t.Parallel()
	full := outer{
		inner: inner{1, true}, Word: "w", Words: []word{"a", ""}, Texts: []string{"x"}, Raw: json.RawMessage(`{}`), None: []byte{},
		Small: -3, Big: math.MaxUint64, Share: 2.5, Took: -time.Hour, Any: map[string]any{"k": 1}, Marked: marked{4}, Measured: measured{7}, Pointed: &measured{8},
		Struct: inner{2, false}, Pointer: &inner{}, Tree: tree{Left: &tree{Leaves: []*tree{nil, {}}}}, Left: "out", hidden: 1,
	}
	wiretest.Same(t, full)
	full.Share, full.Measured, full.Pointed = math.Copysign(0, -1), measured{}, &measured{7}
	wiretest.Same(t, full)
	wiretest.Same(t, &full)
	wiretest.Same(t, odd{Any: 3, At: [3]int{1}, Alias: 4})
	wiretest.Same(t, []ordered{{A: 1, B: 2}})
	for _, v := range []any{"text", 3, -1.5, true, []string(nil), []inner(nil), map[string]string{"a": "b"}, (*inner)(nil)} {
		wiretest.Same(t, v)
	}
}

func TestNumbersAndLengthsHaveTheBytesOfTheLibrary(t *testing.T) {
	t.Parallel()
	for _, edge := range []uint64{0, 31, 32, 127, 128, math.MaxUint8, math.MaxUint16, math.MaxUint32, math.MaxInt64, math.MaxUint64 - 1} {
		for _, n := range []uint64{edge, edge + 1} {
			wiretest.Same(t, n)
			wiretest.Same(t, int64(n))
			wiretest.Same(t, -int64(n))
			if n > math.MaxUint16+1 {
				continue
			}
			wiretest.Same(t, strings.Repeat("x", int(n)))
			wiretest.Same(t, make([]byte, n))
			wiretest.Same(t, slices.Repeat([]string{"x"}, int(n)))
		}
	}
}

func FuzzValuesAreReadAsByTheLibrary(f *testing.F) {
	full := outer{
		inner: inner{1, true}, Word: "w", Words: []word{"a", ""}, Texts: []string{"x"}, Raw: json.RawMessage(`{}`), Any: map[string]any{"k": 1},
		Marked: marked{4}, Pointer: &inner{}, Tree: tree{Left: &tree{Leaves: []*tree{nil, {}}}},
	}
	for _, v := range []any{full, outer{}, []any{1, "a", nil}, map[string]any{"ws": nil, "t": []any{}, "b2": -1, "unknown": []int{1}}} {
		b, err := wire.Marshal(v, wire.Entry)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if wire.Check(b, wire.Entry) == nil {
			wiretest.SameRead(t, reflect.TypeFor[outer](), b)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	raw, err := wire.Marshal(outer{inner: inner{1, true}, Word: "w", Raw: json.RawMessage(`{}`), Pointer: &inner{B: true}}, wire.Command)
	if err != nil {
		b.Fatal(err)
	}
	for name, read := range map[string]func(*outer) error{
		"wire":    func(v *outer) error { return wire.Unmarshal(raw, wire.Command, v) },
		"library": func(v *outer) error { return msgpack.Unmarshal(raw, v) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var v outer
				if err := read(&v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkValue(b *testing.B) {
	v := outer{inner: inner{1, true}, Word: "w", Raw: json.RawMessage(`{}`), Pointer: &inner{B: true}}
	for name, write := range map[string]func(*wire.Writer) error{
		"wire":    func(w *wire.Writer) error { return w.Value(&v) },
		"library": func(w *wire.Writer) error { return w.Library().Encode(&v) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := wire.Encode(wire.Command, write); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
