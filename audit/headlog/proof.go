package headlog

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/tlog"
)

// What is wrong with a proof, besides its checkpoint.
var (
	// ErrBadProof is returned for text that is not a proof of the head of a session.
	ErrBadProof = errors.New("bad proof")

	// ErrNotIncluded is returned if the tree of the checkpoint does not have the leaf at the index: the leaf,
	// the index, the hashes or the root were changed.
	ErrNotIncluded = errors.New("the log does not have this leaf")
)

// Proof shows that a log has the head of a session. It needs no server (tlog-proof, with the leaf as its extra
// data).
type Proof struct {
	Leaf       Leaf
	Index      int64
	Hashes     tlog.RecordProof
	Checkpoint []byte // a signed note
}

// Text returns the proof as a file. ParseFile reads it.
func (p Proof) Text() []byte { return textOf(p.Index, p.Hashes, p.Checkpoint, p.Leaf.Text()) }

func textOf(index int64, hashes tlog.RecordProof, checkpoint, extra []byte) []byte {
	out := proof.TLogProof{Index: uint64(index), Checkpoint: checkpoint, ExtraData: extra} //nolint:gosec // never negative
	for _, h := range hashes {
		out.Hashes = append(out.Hashes, h)
	}
	return out.Marshal()
}

// parse reverses textOf.
func parse(text []byte) (index int64, hashes tlog.RecordProof, checkpoint, extra []byte, err error) {
	var is proof.TLogProof
	if err := is.Unmarshal(text); err != nil {
		return 0, nil, nil, nil, fmt.Errorf("%w: %w", ErrBadProof, err)
	}
	index = int64(is.Index & math.MaxInt64)
	for _, h := range is.Hashes {
		hashes = append(hashes, h)
	}
	if !bytes.Equal(textOf(index, hashes, is.Checkpoint, is.ExtraData), text) {
		return 0, nil, nil, nil, fmt.Errorf("%w: it is not in the canonical format", ErrBadProof)
	}
	return index, hashes, is.Checkpoint, is.ExtraData, nil
}

// Verify checks the signatures of the checkpoint, as [Policy.Open] does, and that its tree has the leaf.
func (p Proof) Verify(by *Policy) (Witnessed, error) {
	return included(by, p.Checkpoint, p.Hashes, p.Index, p.Leaf.Record(), fmt.Sprintf("entry %d of %s", p.Leaf.Seq, p.Leaf.Session))
}

// included checks that the tree of a checkpoint has a leaf.
func included(by *Policy, checkpoint []byte, hashes tlog.RecordProof, index int64, leaf tlog.Hash, what string) (Witnessed, error) {
	at, err := by.Open(checkpoint)
	if err != nil {
		return at, err
	}
	if err := tlog.CheckRecord(hashes, at.N, at.Hash, index, leaf); err != nil {
		return Witnessed{}, fmt.Errorf("%w: %s at index %d of %s", ErrNotIncluded, what, index, at)
	}
	return at, nil
}
