package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/allocated"
	"github.com/turnlog/turnlog/internal/wire"
)

func TestAnEntryOfEveryKindSurvivesTheRoundTrip(t *testing.T) {
	t.Parallel()
	want := sampleEntry(samples()...)
	payload := mustEncode(t, want)
	got, err := Decode(payload)
	if err != nil {
		t.Fatalf("Decode: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestEqualEntriesHaveEqualBytes(t *testing.T) {
	t.Parallel()
	a, b := mustEncode(t, sampleEntry(samples()...)), mustEncode(t, sampleEntry(samples()...))
	if !bytes.Equal(a, b) {
		t.Error("two encodings of one entry differ")
	}
	if HashOf(a) != HashOf(b) || HashOf(a) == HashOf(a[1:]) || HashOf(a).IsZero() {
		t.Error("the hash is not that of the bytes")
	}
}

func TestAnEntryIsExactlyItsBytes(t *testing.T) {
	t.Parallel()
	e := sampleEntry(samples()...)
	payload := mustEncode(t, e)
	if !e.IsExactly(payload) {
		t.Error("an entry is not its own bytes")
	}
	for n := 0; n < len(payload); n += 100 {
		other := bytes.Clone(payload)
		if other[n]++; e.IsExactly(other) || e.IsExactly(payload[:n]) {
			t.Errorf("an entry is other bytes, changed or cut at %d", n)
		}
	}
}

func TestASmallEntryIsSmall(t *testing.T) {
	t.Parallel()
	e := Entry{Version: Version, Session: "s", Seq: 1, Cause: "c", At: sampleTime, Events: []Event{Parked{}}}
	if n := len(mustEncode(t, e)); n > 80 {
		t.Errorf("an empty entry has %d bytes", n)
	}
	e.Events = []Event{InputAccepted{Items: []content.Item{{CreatedAt: sampleTime}}}}
	if b := mustEncode(t, e); bytes.Contains(b, []byte("2023-")) {
		t.Errorf("a time is written as text: %q", b)
	}
}

func TestAnUnknownKindKeepsWhatCameBefore(t *testing.T) {
	t.Parallel()
	want := sampleEntry(Warning{Code: "a"}, VerifyStarted{Attempt: 3}, Parked{})
	payload := bytes.Replace(mustEncode(t, want), []byte(KindVerifyStarted), []byte("verify_startle"), 1)
	got, err := Decode(payload)
	if !errors.Is(err, ErrUnknownKind) || errors.Is(err, ErrBadEntry) {
		t.Fatalf("Decode = %v, want ErrUnknownKind alone", err)
	}
	for _, part := range []string{"s-1/7", "verify_startle"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %s", err, part)
		}
	}
	want.Events = want.Events[:1]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestAnUnknownFieldIsIgnored(t *testing.T) {
	t.Parallel()
	payload := encodeRaw(t, string(KindVerifyStarted), map[string]any{"a": 3, "zz": []any{1, map[string]any{"q": nil}}})
	e, err := Decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Event{VerifyStarted{Attempt: 3}}, e.Events); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestEveryTruncationIsABadEntry(t *testing.T) {
	t.Parallel()
	payload := mustEncode(t, sampleEntry(ReplyRecorded{Turn: "turn-1", Items: sampleItems()}, LimitReached{Kind: LimitCost}))
	for n := range payload {
		if _, err := Decode(payload[:n]); !errors.Is(err, ErrBadEntry) {
			t.Fatalf("Decode of the first %d of %d bytes = %v", n, len(payload), err)
		}
	}
	if _, err := Decode(append(payload, 0xc0)); !errors.Is(err, ErrBadEntry) {
		t.Errorf("Decode with a byte after the end = %v", err)
	}
}

func TestDecodeRefusesOtherBytesAsABadEntry(t *testing.T) {
	t.Parallel()
	good := Entry{Version: Version, Session: "s", Seq: 1, Cause: "c", Events: []Event{Parked{}}}
	older := good
	older.Version = 0
	longer := append(mustEncode(t, good), 0xc0)
	longer[0]++ // the length of the array
	for name, payload := range map[string][]byte{
		"text":              []byte("hello"),
		"a number":          {0x01},
		"an empty array":    {0x90},
		"no version":        mustEncode(t, older),
		"a field too many":  longer,
		"an odd event list": encodeWith(t, func(e *msgpack.Encoder) error { return errors.Join(e.EncodeArrayLen(1), e.EncodeString("parked")) }),
		"no event list":     encodeWith(t, func(e *msgpack.Encoder) error { return e.EncodeNil() }),
		"a short hash":      bytes.Replace(mustEncode(t, good), append([]byte{0xc4, 32}, make([]byte, 32)...), []byte{0xc4, 2, 0, 0}, 1),
		"fields of another type": encodeWith(t, func(e *msgpack.Encoder) error {
			return errors.Join(e.EncodeArrayLen(2), e.EncodeString("verify_started"), e.EncodeString("x"))
		}),
	} {
		if _, err := Decode(payload); !errors.Is(err, ErrBadEntry) {
			t.Errorf("Decode of %s = %v, want ErrBadEntry", name, err)
		}
	}
}

func TestLiveEventsTravelAlone(t *testing.T) {
	t.Parallel()
	for _, want := range samples() {
		b, err := EncodeLive(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeLive(b)
		if Journaled(KindOf(want)) { // a fact is what the journal says, not what live events say
			if !errors.Is(err, ErrBadEntry) {
				t.Errorf("DecodeLive of %s = %v, want ErrBadEntry", KindOf(want), err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("DecodeLive of %s: %v", KindOf(want), err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", KindOf(want), diff)
		}
	}
	for _, bad := range [][]byte{nil, {0x92}, {0xdd, 0xff, 0xff, 0xff, 0xff}, {0x92, 0xa6, 'p', 'a', 'r', 'k', 'e', 'd', 0x01}} {
		if _, err := DecodeLive(bad); !errors.Is(err, ErrBadEntry) {
			t.Errorf("DecodeLive(%x) = %v, want ErrBadEntry", bad, err)
		}
	}
	if _, err := DecodeLive([]byte{0x92, 0xa1, 'x', 0x80}); !errors.Is(err, ErrUnknownKind) {
		t.Errorf("DecodeLive of an unknown kind = %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, ev := range samples() {
		f.Add(mustEncode(f, sampleEntry(ev)))
	}
	f.Add([]byte{0x99, 0xdd, 0xff, 0xff, 0xff, 0xff})
	signed := mustEncode(f, sampleEntry(ToolResultReceived{Signature: &content.Signature{Key: "UKEY"}}))
	f.Add(bytes.Replace(signed, []byte("\xa1k\xa4UKEY"), []byte("\xa1x\xa4UKEY"), 1))
	none := cmp.FilterValues(func(a, b *content.Signature) bool { // an empty one is written as none
		return (a == nil || a.IsZero()) && (b == nil || b.IsZero())
	}, cmp.Ignore())
	f.Fuzz(func(t *testing.T, b []byte) {
		var first Entry
		var err error
		if took := allocated.By(func() { first, err = Decode(b) }); took > wire.Memory(len(b), wire.Entry)+allocated.Slack {
			t.Fatalf("decoding %d bytes took %d", len(b), took)
		}
		if err != nil {
			return
		}
		payload, err := first.Encode()
		if err != nil {
			t.Fatalf("a decoded entry cannot be encoded: %v", err)
		}
		second, err := Decode(payload)
		if err != nil {
			t.Fatalf("an encoded entry cannot be decoded: %v", err)
		}
		if diff := cmp.Diff(first, second, cmpopts.EquateEmpty(), cmpopts.EquateNaNs(), none); diff != "" {
			t.Fatalf("decoding again gives another entry\n%s", diff)
		}
		for _, ev := range first.Events {
			if _, err := MarshalEvent(ev); err != nil {
				t.Fatalf("a decoded event cannot be rendered: %v", err)
			}
		}
	})
}

func FuzzDecodeLive(f *testing.F) {
	for _, ev := range samples() {
		if b, err := EncodeLive(ev); err == nil {
			f.Add(b)
		}
	}
	f.Add([]byte{0x92, 0xa1, 'x', 0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		var ev Event
		var err error
		if took := allocated.By(func() { ev, err = DecodeLive(b) }); took > wire.Memory(len(b), wire.Entry)+allocated.Slack {
			t.Fatalf("decoding %d bytes took %d", len(b), took)
		}
		if err != nil {
			return
		}
		if _, err := EncodeLive(ev); err != nil {
			t.Fatalf("a decoded event cannot be encoded: %v", err)
		}
	})
}

func mustEncode(t testing.TB, e Entry) []byte {
	t.Helper()
	payload, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// encodeRaw encodes an entry with one event of any fields.
func encodeRaw(t *testing.T, kind string, fields any) []byte {
	t.Helper()
	return encodeWith(t, func(e *msgpack.Encoder) error {
		return errors.Join(e.EncodeArrayLen(2), e.EncodeString(kind), e.Encode(fields))
	})
}

// encodeWith encodes an entry with any list of events.
func encodeWith(t *testing.T, eventList func(*msgpack.Encoder) error) []byte {
	t.Helper()
	head := mustEncode(t, Entry{Version: Version, Session: "s", Seq: 1, Cause: "c"})
	var b bytes.Buffer
	b.Write(head[:len(head)-1]) // without the empty list
	if err := eventList(msgpack.NewEncoder(&b)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestOnlyASmallerTranscriptIsACompaction(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		m    MutationFinished
		want bool
	}{
		{MutationFinished{Dirty: true, OldTokens: 9, NewTokens: 4}, true},
		{MutationFinished{Dirty: true, OldTokens: 4, NewTokens: 9}, false},
		{MutationFinished{OldTokens: 9, NewTokens: 4}, false},
	} {
		if got := row.m.Compacts(); got != row.want {
			t.Errorf("%+v: %t", row.m, got)
		}
	}
}

func TestHashesReadAsHexadecimal(t *testing.T) {
	t.Parallel()
	h := HashOf([]byte("x"))
	text, err := json.Marshal(h)
	if want := `"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"`; err != nil || string(text) != want {
		t.Errorf("HashOf(x) = %s, %v, want %s", text, err, want)
	}
	var back Hash
	if err := json.Unmarshal(text, &back); err != nil || back != h {
		t.Errorf("UnmarshalText = %s, %v", back, err)
	}
	for _, bad := range []string{`""`, `"2d71"`, `"zz` + h.String()[2:] + `"`, `7`} {
		if err := json.Unmarshal([]byte(bad), &back); err == nil {
			t.Errorf("UnmarshalText accepted %s", bad)
		}
	}
	if !(Hash{}).IsZero() {
		t.Error("the zero hash is not zero")
	}
}
