// Package snapshot encodes a loop.State, so a host need not fold a long journal from its start.
//
// A snapshot is an index and chunks. The index has the state without its long lists: the transcript, the items
// of turns, the IDs of calls. For each list it has the last few values, and the digests of the chunks with the
// others. A list only grows, so its chunks never change and an [Encoder] encodes each of them once. The cost of a
// snapshot does not depend on the length of the session. The digest of the index identifies the whole state.
//
// A snapshot is a cache: it may be lost or refused at any time, and folding the journal gives the same state. It
// counts only if the journal confirms it (events.SnapshotTaken). Equal states have equal bytes, so an audit can
// compute the digest again. An index starts with its format; a release that does not know the format folds the
// journal instead.
package snapshot

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/wire"
	"github.com/turnlog/turnlog/loop"
)

// Version is the format of this release. It changes when the fields of loop.State change, or how lists are cut into
// chunks.
const Version = 25

// ErrUnusable is returned for an index of another format, and for chunks that do not fit. Fold the journal
// instead.
var ErrUnusable = errors.New("snapshot cannot be used")

// Index is a snapshot without its chunks.
type Index struct {
	parts parts
}

// parts is the content of an index.
type parts struct {
	State      *loop.State `msgpack:"s"` // without the lists
	Transcript list        `msgpack:"t"`
	Turn       list        `msgpack:"u"` // the items of the open turn
	Last       list        `msgpack:"l"` // the items of the last turn that ended
	Calls      []run       `msgpack:"c"` // the IDs of calls
	Asks       []run       `msgpack:"a"` // the IDs of asks
}

// list is a list of items: those in chunks, and the rest.
type list struct {
	Chunks []events.Hash  `msgpack:"c"`
	Sealed int            `msgpack:"n"` // how many items are in the chunks
	Rest   []content.Item `msgpack:"r"`
}

// run is one of the runs of a content.CallSet.
type run struct {
	Chunks []events.Hash    `msgpack:"c"`
	Sealed int              `msgpack:"n"`
	Rest   []content.CallID `msgpack:"r"`
}

// Open reads an index. It returns ErrUnusable for anything else.
func Open(b []byte) (*Index, error) {
	if len(b) == 0 || b[0] != Version {
		return nil, fmt.Errorf("%w: the format is not %d", ErrUnusable, Version)
	}
	x := new(Index)
	err := wire.Unmarshal(b[1:], wire.Snapshot, &x.parts)
	if s := x.parts.State; err == nil && (s == nil || s.Turn == nil && !x.parts.Turn.empty() || s.Last == nil && !x.parts.Last.empty()) {
		err = errors.New("it has items that belong to no list or turn")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return x, nil
}

func (l *list) empty() bool { return len(l.Chunks) == 0 && len(l.Rest) == 0 }

// Chunks returns the digests of the chunks, each once.
func (x *Index) Chunks() []events.Hash {
	p := &x.parts
	all := slices.Concat(p.Transcript.Chunks, p.Turn.Chunks, p.Last.Chunks)
	for _, r := range slices.Concat(p.Calls, p.Asks) {
		all = append(all, r.Chunks...)
	}
	return once(all)
}

// State returns the state and an encoder that continues from it. chunks maps digests to chunks. State returns
// ErrUnusable if a chunk is missing or has another digest. Call it only once.
func (x *Index) State(chunks map[events.Hash][]byte) (*loop.State, *Encoder, error) {
	p, d := &x.parts, decoding{chunks: chunks}
	transcript := parallel[content.Item](&d, p.Transcript.Chunks)
	turn, last := parallel[content.Item](&d, p.Turn.Chunks), parallel[content.Item](&d, p.Last.Chunks)
	all := slices.Concat(p.Calls, p.Asks)
	runs := make([][][]content.CallID, len(all))
	for i, r := range all {
		runs[i] = parallel[content.CallID](&d, r.Chunks)
	}
	d.group.Wait()
	s := p.State
	s.Transcript = join(&d, transcript, p.Transcript.Sealed, p.Transcript.Rest)
	if s.Turn != nil {
		s.Turn.Items = join(&d, turn, p.Turn.Sealed, p.Turn.Rest)
	}
	if s.Last != nil {
		s.Last.Items = join(&d, last, p.Last.Sealed, p.Last.Rest)
	}
	for i, r := range runs {
		set := &s.CallIDs
		if i >= len(p.Calls) {
			set = &s.Asks
		}
		set.Runs = append(set.Runs, join(&d, r, all[i].Sealed, all[i].Rest))
	}
	if err := errors.Join(d.errs...); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return s, resumed(p), nil
}

// Decode reads what [Encode] wrote. It returns ErrUnusable for anything else.
func Decode(b []byte) (*loop.State, error) {
	x, err := Open(b)
	if err != nil {
		return nil, err
	}
	s, _, err := x.State(nil)
	return s, err
}

// decoding decodes chunks concurrently.
type decoding struct {
	chunks map[events.Hash][]byte
	group  sync.WaitGroup

	mu   sync.Mutex
	errs []error
}

// join returns a list from its decoded chunks and its rest.
func join[T any](d *decoding, chunks [][]T, sealed int, rest []T) []T {
	n := 0
	for _, c := range chunks {
		n += len(c)
	}
	if n != sealed {
		d.errs = append(d.errs, fmt.Errorf("chunks have %d values, not %d", n, sealed))
	}
	return slices.Concat(slices.Concat(chunks...), rest)
}

// parallel decodes chunks in the background.
func parallel[T any](d *decoding, digests []events.Hash) [][]T {
	out := make([][]T, len(digests))
	for i, h := range digests {
		d.group.Go(func() {
			b, ok := d.chunks[h]
			err := fmt.Errorf("chunk %s is missing", h)
			if ok && events.HashOf(b) == h {
				err = wire.Unmarshal(b, wire.Snapshot, &out[i])
			}
			if err != nil {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.errs = append(d.errs, err)
			}
		})
	}
	return out
}
