package events

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"
)

func todays(t *testing.T) (Entry, []byte) {
	t.Helper()
	e := Entry{
		Version: Version, Session: "s", Seq: 4, Prev: HashOf([]byte("x")), Cause: "c", At: 5, Epoch: 6,
		Cursors: []Cursor{{Lane: LaneAsk, Seq: 7}}, Events: []Event{Warning{Code: "w"}},
	}
	b, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return e, b
}

func TestEntriesOfTodaysFormatAreRead(t *testing.T) {
	t.Parallel()
	want, payload := todays(t)
	got, err := Decode(payload)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestALaterFormatIsDistinguishedFromDamage(t *testing.T) {
	t.Parallel()
	want, payload := todays(t)
	payload[1] = 9
	got, err := Decode(payload)
	f, ok := errors.AsType[*FormatError](err)
	if !ok || f.Version != 9 || !errors.Is(err, ErrUnknownKind) || errors.Is(err, ErrBadEntry) {
		t.Fatalf("Decode = %v", err)
	}
	if !strings.Contains(err.Error(), "format version 9 is newer than this release, which reads up to 2") {
		t.Errorf("it says %q", err)
	}
	want.Version, want.Events = 9, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("head (-want +got):\n%s", diff)
	}
}

func TestAddedFieldsAreNotDamage(t *testing.T) {
	t.Parallel()
	_, payload := todays(t)
	payload[0]++ // an array of ten
	payload[1] = 9
	payload = append(payload, 0xc0)
	if got, err := Decode(payload); !errors.Is(err, ErrUnknownKind) || got.Seq != 4 {
		t.Errorf("Decode = %+v, %v", got, err)
	}
	var b bytes.Buffer
	if err := msgpack.NewEncoder(&b).Encode([]any{12, map[string]any{"seq": 4}}); err != nil {
		t.Fatal(err)
	}
	if got, err := Decode(b.Bytes()); !errors.Is(err, ErrUnknownKind) || got.Seq != 0 || got.Version != 12 {
		t.Errorf("Decode of another layout = %+v, %v", got, err)
	}
}

func TestDamagedEntriesAreBadEntries(t *testing.T) {
	t.Parallel()
	_, payload := todays(t)
	for _, b := range [][]byte{nil, []byte("hello"), payload[:len(payload)-1], {0x90}, {0x91, 0xa1, 'x'}, append([]byte{0x99, 0x00}, payload[2:]...)} {
		if _, err := Decode(b); !errors.Is(err, ErrBadEntry) || errors.Is(err, ErrUnknownKind) {
			t.Errorf("Decode(%x) = %v", b, err)
		}
	}
}
