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
	// ErrBadProof is returned for text that is no proof of the head of a session.
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

// Text returns the proof as a file.
func (p Proof) Text() []byte {
	out := proof.TLogProof{Index: uint64(p.Index), Checkpoint: p.Checkpoint, ExtraData: p.Leaf.Text()} //nolint:gosec // never negative
	for _, h := range p.Hashes {
		out.Hashes = append(out.Hashes, h)
	}
	return out.Marshal()
}

// ParseProof reverses Text. It verifies nothing.
func ParseProof(text []byte) (Proof, error) {
	var is proof.TLogProof
	if err := is.Unmarshal(text); err != nil {
		return Proof{}, fmt.Errorf("%w: %w", ErrBadProof, err)
	}
	leaf, err := ParseLeaf(is.ExtraData)
	if err != nil {
		return Proof{}, fmt.Errorf("%w: %w", ErrBadProof, err)
	}
	p := Proof{Leaf: leaf, Index: int64(is.Index & math.MaxInt64), Checkpoint: is.Checkpoint}
	for _, h := range is.Hashes {
		p.Hashes = append(p.Hashes, h)
	}
	if !bytes.Equal(p.Text(), text) {
		return Proof{}, fmt.Errorf("%w: it is not written the way that the format requires", ErrBadProof)
	}
	return p, nil
}

// Verify checks the signatures of the checkpoint, as [Policy.Open] does, and that its tree has the leaf.
func (p Proof) Verify(by *Policy) (Witnessed, error) {
	at, err := by.Open(p.Checkpoint)
	if err != nil {
		return at, err
	}
	if err := tlog.CheckRecord(p.Hashes, at.N, at.Hash, p.Index, p.Leaf.Record()); err != nil {
		return Witnessed{}, fmt.Errorf("%w: entry %d of %s at index %d of %s", ErrNotIncluded, p.Leaf.Seq, p.Leaf.Session, p.Index, at)
	}
	return at, nil
}
