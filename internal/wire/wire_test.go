package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

func TestCheckAcceptsEncodedValues(t *testing.T) {
	t.Parallel()
	for _, v := range []any{
		nil, true, -1, 127, 128, math.MaxUint16, math.MaxInt64, uint64(math.MaxUint64), math.MinInt64, 1.5, float32(2),
		"", "short", string(make([]byte, 300)), string(make([]byte, 70_000)),
		[]byte{},
		make([]byte, 300), make([]byte, 70_000),
		[]any{},
		[]int{1, 2, 3},
		make([]string, 40), make([]string, 66_000),
		map[string]any{},
		map[string]any{"a": []any{nil, map[string]int{"b": 1}}},
	} {
		b, err := msgpack.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(b, 4, 1<<20); err != nil {
			t.Errorf("%T of %d bytes: %v", v, len(b), err)
		}
		for n := range min(len(b), 100) {
			if err := check(b[:n], 4, 1<<20); !errors.Is(err, ErrMalformed) {
				t.Errorf("%T cut to %d of %d bytes: %v", v, n, len(b), err)
			}
		}
		if err := check(append(b, 0), 4, 1<<20); !errors.Is(err, ErrMalformed) {
			t.Errorf("%T with a trailing byte: %v", v, err)
		}
	}
}

func TestCheckRefusesFalseLengths(t *testing.T) {
	t.Parallel()
	for _, b := range [][]byte{
		{0xdd, 0xff, 0xff, 0xff, 0xff},
		{0xdd, 0x7f, 0xff, 0xff, 0xff},
		{0xdc, 0xff, 0xff},
		{0x9f, 0xc0},
		{0xdf, 0xff, 0xff, 0xff, 0xff},
		{0xde, 0xff, 0xff},
		{0x82, 0xc0, 0xc0, 0xc0},
		{0xdb, 0xff, 0xff, 0xff, 0xff},
		{0xc6, 0x80, 0x00, 0x00, 0x00},
		{0xda, 0xff, 0xff},
		{0xd9, 0xff},
		{0xbf},
	} {
		if err := check(b, 4, 1<<20); !errors.Is(err, ErrMalformed) {
			t.Errorf("%x: %v, want ErrMalformed", b, err)
		}
	}
}

func TestCheckRefusesExtensionTypes(t *testing.T) {
	t.Parallel()
	for _, b := range [][]byte{{0xc1}, {0xd4, 1, 2}, {0xc7, 1, 1, 1}, {0xd6, 0xff, 0, 0, 0, 0}} {
		if err := check(b, 4, 1<<20); !errors.Is(err, ErrMalformed) {
			t.Errorf("%x: %v, want ErrMalformed", b, err)
		}
	}
}

func TestCheckBoundsNesting(t *testing.T) {
	t.Parallel()
	nested := func(n int) []byte { return append(bytes.Repeat([]byte{0x91}, n), 0xc0) }
	if err := check(nested(4), 4, 1<<20); err != nil {
		t.Errorf("4 of 4: %v", err)
	}
	if err := check(nested(5), 4, 1<<20); !errors.Is(err, ErrMalformed) {
		t.Errorf("5 of 4: %v", err)
	}
	if err := check(append([]byte{0x92}, slices.Concat(nested(3), nested(3))...), 4, 1<<20); err != nil {
		t.Errorf("siblings: %v", err)
	}
}

func TestCheckBoundsWhatBytesMayHold(t *testing.T) {
	t.Parallel()
	list := func(n int, element []byte, padding int) []byte {
		b := binary.BigEndian.AppendUint32([]byte{0x92, 0xdd}, uint32(n)) //nolint:gosec // small
		b = append(append(b, bytes.Repeat(element, n)...), 0xc6)
		return append(binary.BigEndian.AppendUint32(b, uint32(padding)), make([]byte, padding)...) //nolint:gosec // small
	}
	emptyMap, oneField := []byte{0x80}, []byte{0x81, 0xa1, 'k', 0xa1, 'v'}
	for name, tt := range map[string]struct {
		b    []byte
		kind Payload
		says string
	}{
		"few empty maps":                {list(valuesFree/2-16, emptyMap, 0), Entry, ""},
		"a megabyte of empty maps":      {list(1<<20, emptyMap, 0), Entry, "too many array elements and maps, at most 540677 in so many bytes"},
		"a megabyte of short fields":    {list(1<<17, oneField, 0), Entry, ""},
		"as many as a command may hold": {list(commandValues/2-4, emptyMap, commandValues*4), Command, ""},
		"more than a command may hold":  {list(commandValues/2+1, emptyMap, commandValues*4), Command, "at most 1048576"},
		"which an entry may hold":       {list(commandValues/2+1, emptyMap, commandValues*4), Entry, ""},
	} {
		err := Check(tt.b, tt.kind)
		if (err == nil) != (tt.says == "") || err != nil && (!errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}

func TestEntriesNestDeeperThanCommands(t *testing.T) {
	t.Parallel()
	if commandDepth+8 > entryDepth || entryDepth+8 > snapshotDepth {
		t.Error("what a command or an entry holds could not be recorded")
	}
}

func TestCheckAllocatesNothing(t *testing.T) {
	b, err := msgpack.Marshal(map[string]any{"a": []any{1, "x", map[string]int{"b": 1}}})
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { err = check(b, 8, 1<<20) }); n > 0 || err != nil {
		t.Errorf("%v allocations, %v", n, err)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte{0x92, 0xa1, 'x', 0x81, 0xc0, 0xc4, 0x00})
	f.Fuzz(func(t *testing.T, b []byte) {
		if check(b, 16, 1<<20) != nil {
			return
		}
		r := bytes.NewReader(b)
		if err := msgpack.NewDecoder(r).Skip(); err != nil || r.Len() > 0 {
			t.Fatalf("Check passed %x, a decoder did not: %v, %d left", b, err, r.Len())
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	list := make([]map[string]any, 100_000)
	for i := range list {
		list[i] = map[string]any{"id": "i1000", "k": "assistant", "at": i << 30, "p": []any{map[string]any{"k": "text", "t": "what is said here"}}}
	}
	raw, err := msgpack.Marshal(list)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if err := check(raw, 8, 1<<20); err != nil {
			b.Fatal(err)
		}
	}
}
