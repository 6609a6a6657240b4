package events

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/internal/wire"
)

// byTags encodes an event by its struct tags.
func byTags(t *testing.T, ev Event) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	enc.UseCompactInts(true)
	enc.UseCompactFloats(true)
	if err := enc.Encode(ev); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// inRounds are the most frequent kinds.
func inRounds() []Kind {
	return []Kind{
		KindRoundStarted, KindRoundFinished, KindModelCallStarted, KindReplyRecorded, KindUsageUpdated,
		KindToolCallRequested, KindToolDispatched, KindToolResultReceived, KindMutationStarted, KindMutationFinished,
	}
}

func TestEventsAreWrittenAsTheirTagsSay(t *testing.T) {
	t.Parallel()
	var quick []Kind
	for _, ev := range samples() {
		for _, ev := range []Event{ev, reflect.Zero(reflect.TypeOf(ev)).Interface().(Event)} {
			got, err := wire.Encode(wire.EntryDepth, func(enc *msgpack.Encoder) error {
				if encodeFields(enc, ev) {
					quick = append(quick, KindOf(ev))
					return nil
				}
				return enc.Encode(ev)
			})
			if want := byTags(t, ev); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s:\n got %q, %v\nwant %q", KindOf(ev), got, err, want)
			}
		}
	}
	for _, k := range inRounds() {
		if !slices.Contains(quick, k) {
			t.Errorf("%s does not name its fields", k)
		}
	}
}

// Each byte of an event is replaced by bytes that start other values.
func TestEventsAreReadAsTheirTagsSay(t *testing.T) {
	t.Parallel()
	for _, ev := range samples() {
		if !slices.Contains(inRounds(), KindOf(ev)) {
			continue
		}
		raw := byTags(t, ev)
		for i, was := range raw {
			for _, c := range []byte("\x80\x90\xa1\xc0\xc4at") {
				raw[i] = c
				compareEvents(t, KindOf(ev), raw)
			}
			raw[i] = was
		}
	}
}

func FuzzEvent(f *testing.F) {
	for i := range Kinds() {
		f.Add(i, []byte("\x83\xa1t\xa6turn-1\xa1r\x02\xa1?\xc0"))
		f.Add(i, []byte("\xc0"))
	}
	f.Fuzz(func(t *testing.T, kind int, b []byte) {
		if kind >= 0 && kind < len(Kinds()) {
			compareEvents(t, Kinds()[kind], b)
		}
	})
}

// compareEvents decodes an event with its fields and by its struct tags.
func compareEvents(t *testing.T, k Kind, b []byte) {
	t.Helper()
	if wire.Check(b, 32) != nil {
		return
	}
	want, wantErr := decodeEvent(k, msgpack.NewDecoder(bytes.NewReader(b)))
	var got Event
	err := wire.Decode(b, 32, func(d *msgpack.Decoder) (err error) {
		got, err = decodeEvent(k, d)
		return err
	})
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%s %q: %v, by the tags %v", k, b, err, wantErr)
	}
	if err == nil && !reflect.DeepEqual(got, want) && !cmp.Equal(got, want, cmpopts.EquateNaNs()) {
		t.Fatalf("%s %q:\n got %+v\nwant %+v", k, b, got, want)
	}
}
