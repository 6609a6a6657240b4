package headlog

import (
	"errors"
	"fmt"
	"strings"

	formats "github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// maxSize bounds the size of a tree. Package tlog computes with signed numbers.
const maxSize = 1 << 62

// ErrBadCheckpoint is returned for text that is not a checkpoint, or not written as the format requires.
var ErrBadCheckpoint = errors.New("bad checkpoint")

// Checkpoint is the root of a log's tree at a size.
type Checkpoint struct {
	Origin string // names the log; its key has the same name
	tlog.Tree

	extra string // lines after the first three; other logs may have them
}

// Text returns the text that is signed.
func (c Checkpoint) Text() string {
	return string(formats.Checkpoint{Origin: c.Origin, Size: uint64(c.N), Hash: c.Hash[:]}.Marshal()) + c.extra //nolint:gosec // sizes are never negative
}

// String describes the checkpoint.
func (c Checkpoint) String() string {
	return fmt.Sprintf("%s, size %d, root %s", c.Origin, c.N, c.Hash)
}

// ParseCheckpoint reverses Text. If a checkpoint has no leaves, but not the root of an empty tree, the error also
// matches ErrInconsistent.
func ParseCheckpoint(text string) (Checkpoint, error) {
	var is formats.Checkpoint
	rest, err := is.Unmarshal([]byte(text))
	if err != nil {
		return Checkpoint{}, fmt.Errorf("%w: %w", ErrBadCheckpoint, err)
	}
	c := Checkpoint{Origin: is.Origin, extra: string(rest)}
	if len(is.Hash) != tlog.HashSize || is.Size >= maxSize {
		return Checkpoint{}, fmt.Errorf("%w: the root has %d bytes, and the size is %d", ErrBadCheckpoint, len(is.Hash), is.Size)
	}
	c.N, c.Hash = int64(is.Size), tlog.Hash(is.Hash)
	switch {
	case c.Text() != text:
		err = errors.New("it is not in the canonical format")
	case strings.HasPrefix(c.extra, "\n") || strings.Contains(c.extra, "\n\n"):
		err = errors.New("it has an empty line")
	case c.N == 0 && c.Hash != NewState("").Root:
		return c, fmt.Errorf("%w: %w: the size is 0, but the root is not that of an empty tree", ErrBadCheckpoint, ErrInconsistent)
	}
	if err != nil {
		return Checkpoint{}, fmt.Errorf("%w: %w", ErrBadCheckpoint, err)
	}
	return c, nil
}

// Sign returns the checkpoint as a note with the signature of its log. Sign only checkpoints of one tree.
func (c Checkpoint) Sign(log note.Signer) ([]byte, error) {
	if log.Name() != c.Origin {
		return nil, fmt.Errorf("sign checkpoint of %s: the key is that of %s", c.Origin, log.Name())
	}
	signed, err := note.Sign(&note.Note{Text: c.Text()}, log)
	if err != nil {
		return nil, fmt.Errorf("sign checkpoint of %s: %w", c.Origin, err)
	}
	return signed, nil
}

// What is wrong with the signatures of a note.
var (
	// ErrForged is returned if a signature is by a known key, but not over this text.
	ErrForged = errors.New("a signature is forged")

	// ErrUnknownLog is returned if it has no signature of a known log.
	ErrUnknownLog = errors.New("it has no signature of a known log")
)

// Open verifies a note with a checkpoint of a log. Other signatures are ignored.
func Open(signed []byte, log note.Verifier) (Checkpoint, error) {
	n, err := open(signed, log)
	if err != nil {
		return Checkpoint{}, err
	}
	c, err := ParseCheckpoint(n.Text)
	if err == nil && c.Origin != log.Name() {
		err = fmt.Errorf("%w: its origin is %q, and the key is that of %s", ErrUnknownLog, c.Origin, log.Name())
	}
	return c, err
}

// Unverified returns the checkpoint of a note and verifies no signature.
func Unverified(signed []byte) (Checkpoint, error) {
	n, err := open(signed)
	if err != nil && (n == nil || !errors.Is(err, ErrUnknownLog)) {
		return Checkpoint{}, err
	}
	return ParseCheckpoint(n.Text)
}

// open verifies the signatures by known keys on a note. There must be at least one.
func open(signed []byte, known ...note.Verifier) (*note.Note, error) {
	n, err := note.Open(signed, note.VerifierList(known...))
	if bad, ok := errors.AsType[*note.InvalidSignatureError](err); ok {
		return nil, fmt.Errorf("%w: that of %s", ErrForged, bad.Name)
	}
	if none, ok := errors.AsType[*note.UnverifiedNoteError](err); ok {
		return none.Note, ErrUnknownLog
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadCheckpoint, err)
	}
	return n, nil
}
