package jetstream

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/allocated"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/jetstream/internal/held"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// hostile returns malformed values for a key of a map: missing items, deep nesting, unknown types,
// and trailing bytes.
func hostile(t *testing.T, key string, good any) map[string][]byte {
	t.Helper()
	under := func(value ...byte) []byte {
		return append([]byte{0x81, 0xa0 | byte(len(key))}, append([]byte(key), value...)...)
	}
	whole, err := msgpack.Marshal(good)
	must(t, err)
	deep := append(bytes.Repeat([]byte{0x91}, 100_000), 0xc0)
	return map[string][]byte{
		"nothing":                {},
		"text":                   []byte("hello"),
		"two billion elements":   under(0xdd, 0x7f, 0xff, 0xff, 0xff),
		"a million empty ones":   append(under(0xdd, 0x00, 0x10, 0x00, 0x00), bytes.Repeat([]byte{0x80}, 0x10_0000-1000)...),
		"nested":                 append([]byte{0x81, 0xa1, 'x'}, deep...),
		"an extension":           under(0xd4, 0x01, 0x01),
		"trailing bytes":         append(bytes.Clone(whole), 0xc0),
		"half of it":             whole[:len(whole)/2],
		"another's, under a key": whole,
	}
}

// mostAllocated is far more than the length of any hostile value.
const mostAllocated = 32 << 20

func TestInvalidOffersAreSkipped(t *testing.T) {
	for what, value := range hostile(t, "t", offer("w9", "forged")) {
		synctest.Test(t, func(t *testing.T) {
			c := newCell(t)
			v := watch(t, c)
			must(t, c.Catalog().Advertise(t.Context(), offer("w1", "a")))
			wantOffers(t, v, offer("w1", "a"))
			n := allocated.By(func() {
				putRaw(t, c, c.names.Catalog().Key(layout.OfferKeys+"w2"), value)
				wantOffers(t, v, offer("w1", "a"))
			})
			if n > mostAllocated {
				t.Errorf("%s: %d bytes of memory for %d bytes", what, n, len(value))
			}
			putRaw(t, c, c.names.Catalog().Key(layout.OfferKeys+"w1"), value)
			wantOffers(t, v) // w1's offer is gone
		})
	}
}

func TestInvalidNodeRecordsAreSkipped(t *testing.T) {
	for what, value := range hostile(t, "h", held.Record{Node: "n9", Held: []HeldToken{{Session: "s", Reply: "r"}}}) {
		synctest.Test(t, func(t *testing.T) {
			c := newCell(t)
			must(t, c.Nodes().Record(t.Context(), NodeRecord{Node: "n1"}))
			putRaw(t, c, c.names.Nodes().Key("n2"), value)
			var got []NodeRecord
			n := allocated.By(func() { got = nodes(t, c) })
			if diff := cmp.Diff([]NodeRecord{{Node: "n1", AheadKnown: true, Held: []HeldToken{}, SealKeys: []string{}}}, got); diff != "" {
				t.Errorf("%s: nodes (-want +got):\n%s", what, diff)
			}
			if n > mostAllocated {
				t.Errorf("%s: %d bytes of memory for %d bytes", what, n, len(value))
			}
		})
	}
}

// FuzzValues decodes bytes as everything that the cell keeps in values, tasks and snapshots.
func FuzzValues(f *testing.F) {
	for _, v := range []any{
		task.Task{Session: "s", Place: "t1-r1-c1", Attempt: 1, Queue: "q", Input: []byte(`{}`)},
		Offer{Worker: "w", Queue: "q", Tools: []tool.Spec{{Name: "a"}}},
		held.Record{Node: "n", Held: []HeldToken{{Session: "s", Reply: "r"}}},
		held.List{Process: "p", Head: "$JS.ACK.R.c.", Lines: "s 1 1\n"},
	} {
		b, err := encodeValue(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	b, err := encodeValue(journal.Snapshot{State: []byte("state")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{0x94, 1, 0xc4, 0, 1, 0xc6, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		for what, decode := range map[string]func(){
			"task":  func() { _ = decodeValue(b, new(task.Task)) },
			"offer": func() { _ = decodeValue(b, new(Offer)) },
			"node":  func() { _ = decodeValue(b, new(held.Record)) },
			"held":  func() { _ = decodeValue(b, new([]HeldToken)) },
			"list": func() {
				var l held.List
				_ = decodeValue(b, &l)
				_ = l.Tokens()
			},
			"snapshot": func() { _ = decodeValue(b, new(journal.Snapshot)) },
		} {
			if took := allocated.By(decode); took > wire.Memory(len(b), wire.Command)+2*allocated.Slack {
				t.Errorf("%s: decoding %d bytes took %d", what, len(b), took)
			}
		}
	})
}
