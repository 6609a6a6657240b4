package commands

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/allocated"
	"github.com/turnlog/turnlog/internal/testing/sample"
	"github.com/turnlog/turnlog/internal/wire"
)

func TestACommandOfEveryKindSurvivesTheRoundTrip(t *testing.T) {
	t.Parallel()
	for _, c := range samples() {
		if unset := sample.Unset(c); len(unset) > 0 {
			t.Errorf("%s: the sample leaves fields unset: %v", NameOf(c), unset)
		}
		want := sampleEnvelope(c)
		got, err := Decode(mustEncode(t, want))
		if err != nil {
			t.Errorf("%s: %v", NameOf(c), err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", NameOf(c), diff)
		}
	}
}

func TestEqualCommandsHaveEqualBytes(t *testing.T) {
	t.Parallel()
	again := samples()
	for i, c := range samples() {
		if !bytes.Equal(mustEncode(t, sampleEnvelope(c)), mustEncode(t, sampleEnvelope(again[i]))) {
			t.Errorf("%s: two encodings differ", NameOf(c))
		}
	}
}

func TestEveryTruncationIsABadCommand(t *testing.T) {
	t.Parallel()
	for _, c := range samples() {
		b := mustEncode(t, sampleEnvelope(c))
		for n := range b {
			if _, err := Decode(b[:n]); !errors.Is(err, ErrBadCommand) {
				t.Fatalf("%s: Decode of the first %d of %d bytes = %v", NameOf(c), n, len(b), err)
			}
		}
	}
}

func TestMalformedCommandsAreBadCommands(t *testing.T) {
	t.Parallel()
	valid := mustEncode(t, sampleEnvelope(Park{}))
	nameless, overlong := sampleEnvelope(Park{}), sampleEnvelope(Park{})
	nameless.ID, overlong.ID = "", strings.Repeat("x", maxIDLen+1)
	deep := slices.Concat(valid[:len(valid)-1], []byte{0x81, 0xa1, '?'}, bytes.Repeat([]byte{0x91}, 4<<20), []byte{0xc0})
	for name, b := range map[string][]byte{
		"nothing":          nil,
		"text":             []byte("park"),
		"too few fields":   {0x91, 0xa1, 'x'},
		"a wrong type":     {0x97, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01},
		"no id":            mustEncode(t, nameless),
		"an overlong id":   mustEncode(t, overlong),
		"an unknown name":  bytes.Replace(valid, []byte("park"), []byte("bark"), 1),
		"wrong fields":     bytes.Replace(mustEncode(t, sampleEnvelope(Close{})), []byte("\xa5close\x80"), []byte("\xa5close\x07"), 1),
		"trailing bytes":   append(slices.Clone(valid), 0xc0),
		"a bottomless pit": deep,
	} {
		if _, err := Decode(b); !errors.Is(err, ErrBadCommand) {
			t.Errorf("Decode of %s = %v, want ErrBadCommand", name, err)
		}
	}
}

// The worst commands of their length, most of which are refused.
func hostileCommands(t testing.TB, size int) map[string][]byte {
	t.Helper()
	head, _, found := bytes.Cut(mustEncode(t, sampleEnvelope(SubmitInput{})), []byte("submit_input"))
	if !found {
		t.Fatal("the command does not say its name")
	}
	body := func(path string, element []byte) []byte {
		b := slices.Concat(head, []byte("submit_input"))
		for key := range strings.SplitSeq(path, ".") {
			if key == "0" {
				b = append(b, 0x91)
				continue
			}
			b = append(append(b, 0x81, 0xa0|byte(len(key))), key...)
		}
		for n := size / len(element); ; n = n * 15 / 16 { // the most that are accepted, or one that is not
			list := binary.BigEndian.AppendUint32(slices.Concat(b, []byte{0xdd}), uint32(n)) //nolint:gosec // small
			all := slices.Concat(list, bytes.Repeat(element, n))
			if wire.Check(all, wire.Command) == nil || n < 16 {
				return all
			}
		}
	}
	full := []byte("\x84\xa1m\x80\xa1r\x80\xa1c\x80\xa2rs\x80")
	return map[string][]byte{
		"empty items":    body("i", []byte{0x80}),
		"nil items":      body("i", []byte{0xc0}),
		"full parts":     body("i.0.p", full),
		"metadata":       body("i.0.md", []byte("\x82\xa1k\xa1a\xa1v\xc4\x010")),
		"a false length": slices.Concat(head, []byte("submit_input\x81\xa1i\xdd\xff\xff\xff\xff")),
	}
}

// A command takes no more memory than what a node sets aside for bytes of its length.
func TestDecodeKeepsToItsMemory(t *testing.T) {
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20, 8 << 20} {
		for name, b := range hostileCommands(t, size) {
			var err error
			took := allocated.By(func() { _, err = Decode(b) })
			most := wire.Memory(len(b), wire.Command) + allocated.Slack
			if took > most {
				t.Errorf("%s: decoding %d bytes took %d, at most %d: %v", name, len(b), took, most, err)
			}
		}
	}
}

// An entry records the content of a command, with additional nesting.
func TestAnEntryCanHoldAnyCommand(t *testing.T) {
	t.Parallel()
	result := content.NewResult("c", "t", content.StatusOK, "x")
	report := ReportResult{Place: samplePlace}
	for range 40 {
		outer := content.NewResult("c", "t", content.StatusOK, "x")
		outer.Output = append(outer.Output, content.ResultPart(result))
		result = outer
	}
	report.Outcome.Result = result
	if _, err := sampleEnvelope(report).Encode(); err == nil {
		t.Error("Encode accepted a command that Decode rejects")
	}
}

func TestFieldsOfTheHostAreNotEncoded(t *testing.T) {
	t.Parallel()
	e := sampleEnvelope(Park{})
	plain := mustEncode(t, e)
	config := sampleConfig()
	e.Catalog, e.Checks = &config.Catalog, []Check{{Place: samplePlace}}
	if !bytes.Equal(plain, mustEncode(t, e)) {
		t.Error("fields that the host attaches were encoded")
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range samples() {
		f.Add(mustEncode(f, sampleEnvelope(c)))
	}
	signed := mustEncode(f, sampleEnvelope(ReportResult{Signature: &content.Signature{Key: "UKEY"}}))
	f.Add(bytes.Replace(signed, []byte("\xa1k\xa4UKEY"), []byte("\xa1x\xa4UKEY"), 1))
	none := cmp.FilterValues(func(a, b *content.Signature) bool { // an empty one is written as none
		return (a == nil || a.IsZero()) && (b == nil || b.IsZero())
	}, cmp.Ignore())
	f.Fuzz(func(t *testing.T, b []byte) {
		var first Envelope
		var err error
		if took := allocated.By(func() { first, err = Decode(b) }); took > wire.Memory(len(b), wire.Command)+allocated.Slack {
			t.Fatalf("decoding %d bytes took %d", len(b), took)
		}
		if err != nil {
			if !errors.Is(err, ErrBadCommand) {
				t.Fatalf("Decode = %v, want ErrBadCommand", err)
			}
			return
		}
		again, err := first.Encode()
		if err != nil {
			t.Fatalf("a decoded command cannot be encoded: %v", err)
		}
		second, err := Decode(again)
		if err != nil {
			t.Fatalf("an encoded command cannot be decoded: %v", err)
		}
		if diff := cmp.Diff(first, second, cmpopts.EquateEmpty(), none); diff != "" {
			t.Fatalf("decoding again gives another command\n%s", diff)
		}
	})
}

func mustEncode(t testing.TB, e Envelope) []byte {
	t.Helper()
	b, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A field of a command that is missing on the wire has no tag.
func TestEveryFieldOfACommandHasAKey(t *testing.T) {
	t.Parallel()
	for _, c := range samples() {
		b, err := msgpack.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := msgpack.Unmarshal(b, &m); err != nil {
			t.Fatalf("%s: %v", NameOf(c), err)
		}
		for key := range m {
			if key == "" || len(key) > 3 || key != strings.ToLower(key) {
				t.Errorf("%s: key %q", NameOf(c), key)
			}
		}
	}
}
