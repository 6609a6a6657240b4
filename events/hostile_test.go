package events

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/content"
)

// Each of these payloads claims in a few bytes to contain four billion elements.
func TestAFalseLengthAllocatesNothing(t *testing.T) {
	promise := func(code byte) []byte { return binary.BigEndian.AppendUint32([]byte{code}, 1<<32-1) }
	inItems := func(payload []byte) []byte { // in place of the one item of an InputAccepted
		return slices.Concat([]byte{0x92, 0xae}, []byte("input_accepted"), []byte{0x81, 0xa1, 'i'}, payload)
	}
	for name, list := range map[string][]byte{
		"events":  promise(0xdd),
		"items":   inItems(promise(0xdd)),
		"a map":   inItems(slices.Concat([]byte{0x91}, promise(0xdf))),
		"a text":  inItems(slices.Concat([]byte{0x91, 0x81, 0xa2, 'i', 'd'}, promise(0xdb))),
		"bytes":   inItems(slices.Concat([]byte{0x91, 0x81, 0xa1, 'p', 0x91, 0x81, 0xa1, 'd'}, promise(0xc6))),
		"skipped": inItems(slices.Concat([]byte{0x91, 0x81, 0xa1, '?'}, promise(0xdd))),
	} {
		payload := encodeWith(t, func(*msgpack.Encoder) error { return nil })
		payload = append(payload, list...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Decode(payload)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrBadEntry) {
			t.Errorf("%s: Decode = %v, want ErrBadEntry", name, err)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
			t.Errorf("%s: %d bytes of payload allocated %d", name, len(payload), grown)
		}
	}
}

func TestAMegabyteOfEmptyItemsIsRefused(t *testing.T) {
	t.Parallel()
	const n = 1 << 20
	list := slices.Concat([]byte{0x92, 0xae}, []byte("input_accepted"), []byte{0x81, 0xa1, 'i'},
		binary.BigEndian.AppendUint32([]byte{0xdd}, n), bytes.Repeat([]byte{0x80}, n))
	payload := append(encodeWith(t, func(*msgpack.Encoder) error { return nil }), list...)
	if _, err := Decode(payload); !errors.Is(err, ErrBadEntry) {
		t.Errorf("Decode = %v, want ErrBadEntry", err)
	}
}

func TestExcessiveNestingIsRefused(t *testing.T) {
	t.Parallel()
	deep := append(bytes.Repeat([]byte{0x91}, 4<<20), 0xc0)
	payload := append(encodeWith(t, func(e *msgpack.Encoder) error {
		return errors.Join(e.EncodeArrayLen(2), e.EncodeString("parked"), e.EncodeMapLen(1), e.EncodeString("?"))
	}), deep...)
	if _, err := Decode(payload); !errors.Is(err, ErrBadEntry) {
		t.Errorf("Decode = %v, want ErrBadEntry", err)
	}
	if _, err := DecodeLive(deep); !errors.Is(err, ErrBadEntry) {
		t.Errorf("DecodeLive = %v, want ErrBadEntry", err)
	}
}

func TestUnreadableEntriesAreNotWritten(t *testing.T) {
	t.Parallel()
	result := content.NewResult("c", "t", content.StatusOK, "x")
	for range 60 {
		outer := content.NewResult("c", "t", content.StatusOK, "x")
		outer.Output = append(outer.Output, content.ResultPart(result))
		result = outer
	}
	if _, err := sampleEntry(ToolResultReceived{Result: result}).Encode(); err == nil {
		t.Error("Encode accepted an entry that Decode rejects")
	}
}
