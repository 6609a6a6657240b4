// Package headlog is a transparency log of the heads of sessions: an append-only Merkle tree (RFC 6962) whose
// leaves say which entry was the last one of a session.
//
// Anyone who has a checkpoint of the log, which is a signed root, can later check that everything below it still
// exists. A checkpoint covers every head that was logged before it. So one line that was kept elsewhere reveals that
// a journal was rewritten, cut off or removed, and also that the log itself was. Witnesses of other organizations
// cosign a checkpoint only if it continues the last one that they saw. So a log that shows two histories gets no
// witness for the second one.
//
// The formats are defined by C2SP, so that other implementations can read and verify them: tlog-tiles,
// tlog-checkpoint, tlog-cosignature, tlog-proof and tlog-policy. golang.org/x/mod/sumdb/tlog computes the hashes.
//
// A [Tree] appends leaves. Its only writer stores it, with the [Tile]s that it fills. A [Reader] makes proofs from
// both and verifies every tile that it reads against the root. A [Proof] goes with a session that leaves its
// deployment, and a [Policy] says which log and which witnesses a verifier trusts.
//
// The package does no I/O and reads no clock.
package headlog

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// leafType is the prefix of each leaf of this kind. A log may also hold leaves of other kinds.
const leafType = "turnlog-head/v1"

// Leaf is the head of a session at some time: the number of an entry and its hash, which covers all earlier
// entries.
type Leaf struct {
	Cell    string            `json:"cell"` // the namespace of the cell
	Session content.SessionID `json:"session"`
	Seq     uint64            `json:"seq"`
	Hash    events.Hash       `json:"hash"`
}

// ErrNotAHead is returned by ParseLeaf for a leaf of another kind, and for a malformed one.
var ErrNotAHead = errors.New("not the head of a session")

// Text returns the leaf as the log holds it: five lines.
func (l Leaf) Text() []byte {
	return fmt.Appendf(nil, "%s\n%s\n%s\n%d\n%s\n", leafType, l.Cell, l.Session, l.Seq, l.Hash)
}

// Record returns the hash of the leaf in the tree.
func (l Leaf) Record() tlog.Hash { return tlog.RecordHash(l.Text()) }

// ParseLeaf reverses Text.
func ParseLeaf(text []byte) (Leaf, error) {
	lines := strings.Split(string(text), "\n")
	if len(lines) != 6 || lines[0] != leafType {
		return Leaf{}, ErrNotAHead
	}
	l := Leaf{Cell: lines[1], Session: content.SessionID(lines[2])}
	var err error
	if l.Seq, err = strconv.ParseUint(lines[3], 10, 64); err == nil {
		err = l.Hash.UnmarshalText([]byte(lines[4]))
	}
	if err != nil || l.Seq == 0 || !content.IsToken(l.Cell) || !content.IsToken(string(l.Session)) || !bytes.Equal(l.Text(), text) {
		return Leaf{}, fmt.Errorf("%w: %q", ErrNotAHead, content.Clip(string(text), 300))
	}
	return l, nil
}
