package events

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/events/seal"
)

// sealedSample is an entry with sealed events between those that are not.
func sealedSample(t testing.TB) Entry {
	t.Helper()
	key, err := seal.KeyOf(bytes.Repeat([]byte{7}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	e := sampleEntry(DriverClaimed{Epoch: 2, Node: "node-1", Key: "k1"}, Warning{Code: "secret", Message: "nobody may read this"}, VerifyStarted{Attempt: 3}, Parked{})
	e.Version, e.Sealing = VersionSealed, &Sealing{ID: key.ID(), Key: key, Nonce: seal.Nonce(bytes.Repeat([]byte{9}, seal.NonceSize))}
	return e
}

func TestSealedEventsOpenOnlyWithTheirKey(t *testing.T) {
	t.Parallel()
	want := sealedSample(t)
	payload := mustEncode(t, want)
	for _, text := range []string{"nobody", "may read", "secret"} {
		if bytes.Contains(payload, []byte(text)) {
			t.Errorf("the payload shows %q", text)
		}
	}
	got, err := Open(payload, want.Sealing.Key)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Events, got.Events); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if again := mustEncode(t, got); !bytes.Equal(again, payload) {
		t.Error("an opened entry is written with other bytes")
	}
	for name, key := range map[string]*seal.Key{"no key": nil, "another key": seal.New()} {
		got, err := Open(payload, key)
		sealed, ok := errors.AsType[*SealedError](err)
		if !ok || !errors.Is(err, ErrUnknownKind) || sealed.Seq != want.Seq || sealed.ID != want.Sealing.ID {
			t.Fatalf("Open with %s = %v, want a SealedError", name, err)
		}
		if !slices.Equal(got.Kinds(), want.Kinds()) || len(got.Events) != 2 || got.Prev != want.Prev || got.Epoch != want.Epoch {
			t.Errorf("Open with %s = %+v, want the head, the kinds and the events of drivers", name, got)
		}
	}
}

func TestAnEntryOfDriversNeedsNoKey(t *testing.T) {
	t.Parallel()
	want := sealedSample(t)
	want.Events = []Event{DriverClaimed{Epoch: 2}, Parked{}}
	got, err := Decode(mustEncode(t, want))
	if diff := cmp.Diff(want.Events, got.Events); diff != "" || err != nil {
		t.Errorf("Decode = %v, -want +got\n%s", err, diff)
	}
	if again, err := got.Encode(); err != nil || !bytes.Equal(again, mustEncode(t, want)) {
		t.Errorf("it is written with other bytes: %v", err)
	}
}

// Not one bit of a sealed entry can be changed: it is another entry, or it does not open, or it is none.
func TestAChangedSealedEntryIsNeverTheSame(t *testing.T) {
	t.Parallel()
	want := sealedSample(t)
	payload := mustEncode(t, want)
	for i := range payload {
		for _, bit := range []byte{1, 0x80} {
			changed := bytes.Clone(payload)
			changed[i] ^= bit
			got, err := Open(changed, want.Sealing.Key)
			if err != nil {
				continue
			}
			t.Errorf("byte %d changed: it opens as %+v", i, got)
		}
	}
	for n := range payload {
		if _, err := Decode(payload[:n]); !errors.Is(err, ErrBadEntry) {
			t.Fatalf("Decode of the first %d bytes = %v", n, err)
		}
	}
}

func TestEachSealingHasANonceOfItsOwn(t *testing.T) {
	t.Parallel()
	key, seen := seal.New(), map[seal.Nonce]bool{}
	for range 1000 {
		s := NewSealing(key)
		if seen[s.Nonce] {
			t.Fatal("a nonce occurs twice")
		}
		seen[s.Nonce] = true
	}
}

func TestASealedEntryWithAnUnknownKindKeepsWhatCameBefore(t *testing.T) {
	t.Parallel()
	e := sealedSample(t)
	e.Events = []Event{Parked{}, Warning{Code: "a"}, unknownEvent{}, Parked{}}
	got, err := Open(mustEncode(t, e), e.Sealing.Key)
	if _, isSealed := errors.AsType[*SealedError](err); !errors.Is(err, ErrUnknownKind) || isSealed {
		t.Fatalf("Open = %v, want ErrUnknownKind", err)
	}
	if diff := cmp.Diff([]Event{Parked{}, Warning{Code: "a"}}, got.Events); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

type unknownEvent struct{}

func (unknownEvent) event() Kind { return "of_tomorrow" }

// The bytes of a sealed entry are frozen, like those of all others.
func TestGoldenBytesOfASealedEntry(t *testing.T) {
	t.Parallel()
	const file = "testdata/sealed.entry"
	want := sealedSample(t)
	text, err := os.ReadFile(file)
	if *update && errors.Is(err, os.ErrNotExist) {
		text, err = []byte(base64.StdEncoding.EncodeToString(mustEncode(t, want))+"\n"), nil
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	payload, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Open(payload, want.Sealing.Key)
	if diff := cmp.Diff(want.Events, got.Events); diff != "" || err != nil {
		t.Errorf("Open = %v, -want +got\n%s", err, diff)
	}
	if !bytes.Equal(mustEncode(t, want), payload) {
		t.Error("the entry is written differently")
	}
}

func FuzzOpen(f *testing.F) {
	e := sealedSample(f)
	payload, err := e.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload)
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := Open(b, e.Sealing.Key); err == nil && len(got.Events) != len(got.Kinds()) {
			t.Errorf("%d events of %d kinds", len(got.Events), len(got.Kinds()))
		}
	})
}

func BenchmarkSealedEntry(b *testing.B) {
	e := sampleEntry(samples()...)
	for _, sealed := range []bool{false, true} {
		name := "open"
		var key *seal.Key
		if sealed {
			name, key = "sealed", seal.New()
			e.Version = VersionSealed
		}
		b.Run(name+"/encode", func(b *testing.B) {
			for b.Loop() {
				if sealed {
					e.Sealing = NewSealing(key)
				}
				if _, err := e.Encode(); err != nil {
					b.Fatal(err)
				}
			}
		})
		payload, err := e.Encode()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/decode", func(b *testing.B) {
			b.SetBytes(int64(len(payload)))
			for b.Loop() {
				if _, err := Open(payload, key); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
