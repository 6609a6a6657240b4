package snapshot

import (
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/loop"
)

// Encoder encodes the states of one session in order. It remembers the chunks that it has encoded, so each snapshot
// costs only what is new in it. The zero Encoder remembers none. It is not safe for concurrent use.
type Encoder struct {
	rewritten  int // State.Rewritten: if it differs, all chunks of items are invalid
	transcript sealed
	turns      []turn // the open turn and the last one
	runs       []known
}

// sealed is the part of a list that is in chunks.
type sealed struct {
	chunks []events.Hash
	items  int
}

type turn struct {
	n     int
	items sealed
}

// known is a run whose chunks are encoded. A run never changes. Holding it keeps its memory from being reused, so
// its address identifies it.
type known struct {
	ids    []content.CallID
	chunks []events.Hash
	sealed int // how many of the IDs are in the chunks
}

// Keep stores a chunk under its digest. It may be called again with the same chunk.
type Keep func(digest events.Hash, chunk []byte) error

// Encode returns the index of s, after keeping the chunks that are new to the encoder. After an error, call it again
// with the same or a later state. A snapshot leaves out the turns that ended in the last entry (Ends), since
// another entry follows.
func (e *Encoder) Encode(s *loop.State, keep Keep) ([]byte, error) {
	b, err := e.encode(s, keep)
	if err != nil {
		return nil, fmt.Errorf("encode snapshot of %s at %d: %w", s.Session, s.Seq, err)
	}
	return b, nil
}

// Seal encodes the complete chunks of the transcript. Their items are not read again unless the transcript is
// rewritten.
func (e *Encoder) Seal(s *loop.State, keep Keep) error {
	e.follow(s)
	_, err := e.transcript.grow(s.Transcript, keep)
	return err
}

// Sealed returns how many items of the transcript are in chunks.
func (e *Encoder) Sealed() int { return e.transcript.items }

// follow forgets the chunks of a transcript that was rewritten.
func (e *Encoder) follow(s *loop.State) {
	if s.Rewritten != e.rewritten {
		*e = Encoder{rewritten: s.Rewritten, runs: e.runs}
	}
}

func (e *Encoder) encode(s *loop.State, keep Keep) (_ []byte, err error) {
	e.follow(s)
	e.turns = slices.DeleteFunc(e.turns, func(t turn) bool {
		return (s.Turn == nil || s.Turn.N != t.n) && (s.Last == nil || s.Last.N != t.n)
	})
	p := split(s)
	p.State.Ends = nil
	if p.Transcript, err = e.transcript.grow(s.Transcript, keep); err != nil {
		return nil, err
	}
	if s.Turn != nil {
		if p.Turn, err = e.turn(s.Turn.N).grow(s.Turn.Items, keep); err != nil {
			return nil, err
		}
	}
	if s.Last != nil {
		if p.Last, err = e.turn(s.Last.N).grow(s.Last.Items, keep); err != nil {
			return nil, err
		}
	}
	all, err := e.calls(slices.Concat(s.CallIDs.Runs, s.Asks.Runs), keep)
	if err != nil {
		return nil, err
	}
	p.Calls, p.Asks = all[:len(s.CallIDs.Runs):len(s.CallIDs.Runs)], all[len(s.CallIDs.Runs):]
	return p.encode()
}

// Encode returns all of s in one piece, for [Decode].
func Encode(s *loop.State) ([]byte, error) {
	p := split(s)
	p.Transcript.Rest = s.Transcript
	if s.Turn != nil {
		p.Turn.Rest = s.Turn.Items
	}
	if s.Last != nil {
		p.Last.Rest = s.Last.Items
	}
	for _, ids := range s.CallIDs.Runs {
		p.Calls = append(p.Calls, run{Rest: ids})
	}
	for _, ids := range s.Asks.Runs {
		p.Asks = append(p.Asks, run{Rest: ids})
	}
	b, err := p.encode()
	if err != nil {
		return nil, fmt.Errorf("encode %s at %d: %w", s.Session, s.Seq, err)
	}
	return b, nil
}

// split returns the parts of a state without its lists.
func split(s *loop.State) *parts {
	short := *s
	short.Transcript, short.CallIDs.Runs, short.Asks.Runs = nil, nil, nil
	if s.Turn != nil {
		t := *s.Turn
		t.Items, short.Turn = nil, &t
	}
	if s.Last != nil {
		t := *s.Last
		t.Items, short.Last = nil, &t
	}
	return &parts{State: &short}
}

func (p *parts) encode() ([]byte, error) {
	b, err := wire.Marshal(p, wire.Snapshot)
	return slices.Insert(b, 0, byte(Version)), err
}

// Chunks returns the digests of the chunks of the latest snapshot, each once.
func (e *Encoder) Chunks() []events.Hash {
	all := slices.Clone(e.transcript.chunks)
	for _, t := range e.turns {
		all = append(all, t.items.chunks...)
	}
	for _, r := range e.runs {
		all = append(all, r.chunks...)
	}
	return once(all)
}

// once sorts digests and removes repetitions.
func once(all []events.Hash) []events.Hash {
	slices.SortFunc(all, events.Hash.Compare)
	return slices.Compact(all)
}

// turn returns the sealed part of a turn's items.
func (e *Encoder) turn(n int) *sealed {
	i := slices.IndexFunc(e.turns, func(t turn) bool { return t.n == n })
	if i < 0 {
		i, e.turns = len(e.turns), append(e.turns, turn{n: n})
	}
	return &e.turns[i].items
}

// chunkSize is the approximate size of a chunk in bytes. It fits in a message and needs no blob.
const chunkSize = 48 << 10

// grow seals the chunks that are complete, and returns the list.
func (k *sealed) grow(items []content.Item, keep Keep) (list, error) {
	if len(items) < k.items { // Last has the items of a turn only when it has ended
		return list{Rest: items}, nil
	}
	size := 0
	for i := k.items; i < len(items); i++ {
		if size += sizeOf(&items[i]); size < chunkSize {
			continue
		}
		h, err := seal(items[k.items:i+1], keep)
		if err != nil {
			return list{}, err
		}
		k.chunks, k.items, size = append(k.chunks, h), i+1, 0
	}
	return list{Chunks: k.chunks, Sealed: k.items, Rest: items[k.items:]}, nil
}

// calls returns runs of IDs, and seals those that are new.
func (e *Encoder) calls(runs [][]content.CallID, keep Keep) (out []run, err error) {
	var now []known
	for _, ids := range runs {
		i := slices.IndexFunc(e.runs, func(k known) bool { return len(k.ids) == len(ids) && &k.ids[0] == &ids[0] })
		k := known{ids: ids}
		if i >= 0 {
			k = e.runs[i]
		} else if err := k.seal(keep); err != nil {
			return nil, err
		}
		now, out = append(now, k), append(out, run{k.chunks, k.sealed, ids[k.sealed:]})
	}
	e.runs = now
	return out, nil
}

// runSize is the approximate size of a chunk of IDs in bytes. It is smaller because each of several runs has a rest.
const runSize = 16 << 10

func (k *known) seal(keep Keep) error {
	size := 0
	for i, id := range k.ids {
		if size += 2 + len(id); size < runSize {
			continue
		}
		h, err := seal(k.ids[k.sealed:i+1], keep)
		if err != nil {
			return err
		}
		k.chunks, k.sealed, size = append(k.chunks, h), i+1, 0
	}
	return nil
}

func seal[T any](values []T, keep Keep) (events.Hash, error) {
	b, err := wire.Marshal(values, wire.Snapshot)
	if err != nil {
		return events.Hash{}, err
	}
	h := events.HashOf(b)
	return h, keep(h, b)
}

// resumed returns an encoder that knows the chunks of a snapshot.
func resumed(p *parts) *Encoder {
	e := &Encoder{rewritten: p.State.Rewritten, transcript: p.Transcript.sealed()}
	if t := p.State.Turn; t != nil {
		e.turns = append(e.turns, turn{t.N, p.Turn.sealed()})
	}
	if t := p.State.Last; t != nil && (p.State.Turn == nil || p.State.Turn.N != t.N) {
		e.turns = append(e.turns, turn{t.N, p.Last.sealed()})
	}
	all := slices.Concat(p.Calls, p.Asks)
	for i, ids := range slices.Concat(p.State.CallIDs.Runs, p.State.Asks.Runs) {
		e.runs = append(e.runs, known{ids, all[i].Chunks, all[i].Sealed})
	}
	return e
}

func (l *list) sealed() sealed { return sealed{slices.Clip(l.Chunks), l.Sealed} }

// sizeOf returns the approximate encoded size of an item in bytes. It decides where lists are cut.
func sizeOf(it *content.Item) int { return 48 + sizeOfMetadata(it.Metadata) + sizeOfParts(it.Parts) }

func sizeOfParts(parts []content.Part) (n int) {
	for i := range parts {
		p := &parts[i]
		n += 16 + len(p.Text) + len(p.Name) + len(p.Data) + sizeOfMetadata(p.Metadata)
		if p.Media != nil {
			n += len(p.Media.Bytes) + len(p.Media.URI)
		}
		if p.Reasoning != nil {
			n += len(p.Reasoning.Signature) + len(p.Reasoning.Encrypted)
		}
		if p.Call != nil {
			n += 48 + len(p.Call.Input)
		}
		if p.Result != nil {
			n += 64 + sizeOfMetadata(p.Result.Metadata) + sizeOfParts(p.Result.Output)
		}
	}
	return n
}

func sizeOfMetadata(m content.Metadata) (n int) {
	for i := range m {
		n += 8 + len(m[i].Key) + len(m[i].Value)
	}
	return n
}
