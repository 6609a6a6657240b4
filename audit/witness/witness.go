// Package witness cosigns the checkpoints of logs that only grow, and asks witnesses to do so, in the protocol of
// C2SP tlog-witness.
//
// A witness remembers the last checkpoint of each log that it cosigned, and cosigns another one only with a proof
// that its tree continues that one. So a log whose history was rewritten, or that shows different histories to
// different people, gets no cosignature for the second one. A witness stores a checkpoint on disk before it answers.
//
// A [Witness] is the server's side and owns its directory. A [Client] is the log's side.
package witness

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2/maybe"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/internal/textfile"
)

// Witness cosigns checkpoints. Its directory has one file for each log: the last checkpoint that it cosigned.
type Witness struct {
	by   *headlog.Cosigner
	logs map[string]note.Verifier // by origin
	dir  string
	lock *flock.Flock

	mu sync.Mutex // held from reading a file to replacing it
}

var (
	// ErrInUse is returned by Open for a directory that another witness uses. Two could cosign different trees.
	ErrInUse = errors.New("another witness uses this directory")

	// ErrBadState is returned for a file that is not a checkpoint which this witness cosigned. Restore it: without
	// it, the witness would cosign another history of the log.
	ErrBadState = errors.New("not a checkpoint that this witness cosigned")
)

// Open returns a witness of logs that keeps its state in a directory. The caller must Close it. Open returns an error if
// no log has a usable file. A log with a bad file does not stop the others, see Broken.
func Open(dir string, by *headlog.Cosigner, logs []note.Verifier) (*Witness, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open witness: %w", err)
	}
	w := &Witness{by: by, logs: map[string]note.Verifier{}, dir: dir, lock: flock.New(filepath.Join(dir, "lock"))}
	for _, l := range logs {
		if _, twice := w.logs[l.Name()]; twice {
			return nil, fmt.Errorf("open witness: two keys for log %s", l.Name())
		}
		w.logs[l.Name()] = l
	}
	if locked, err := w.lock.TryLock(); err != nil || !locked {
		return nil, errors.Join(fmt.Errorf("open witness in %s: %w", dir, ErrInUse), err)
	}
	if broken := w.Broken(); len(broken) > 0 && len(broken) == len(w.logs) {
		return nil, errors.Join(errors.Join(broken...), w.Close())
	}
	return w, nil
}

// Broken returns why the witness cosigns nothing for some of its logs: their files cannot be used.
func (w *Witness) Broken() (out []error) {
	for origin := range w.logs {
		if _, _, err := w.Last(origin); err != nil {
			out = append(out, err)
		}
	}
	return out
}

// Close frees the directory.
func (w *Witness) Close() error {
	if err := w.lock.Unlock(); err != nil {
		return fmt.Errorf("close witness: %w", err)
	}
	return nil
}

// Last returns the last checkpoint of a log that the witness cosigned, as a note with the signature of the log
// and its own. Before the first one, the note is nil.
func (w *Witness) Last(origin string) (headlog.Checkpoint, []byte, error) {
	none := headlog.NewState(origin).Checkpoint()
	signed, err := textfile.ReadFile(w.file(origin), maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return none, nil, nil
	case err != nil:
		return none, nil, fmt.Errorf("last checkpoint of %s: %w", origin, err)
	}
	n, err := note.Open(signed, note.VerifierList(w.by))
	if err != nil {
		return none, nil, fmt.Errorf("last checkpoint of %s in %s: %w: %w", origin, w.file(origin), ErrBadState, err)
	}
	at, err := headlog.ParseCheckpoint(n.Text)
	if err != nil || at.Origin != origin {
		return none, nil, fmt.Errorf("last checkpoint of %s in %s: %w", origin, w.file(origin), ErrBadState)
	}
	return at, signed, nil
}

// file returns the file of a log.
func (w *Witness) file(origin string) string {
	return filepath.Join(w.dir, originHash(origin)+".checkpoint")
}

// originHash names a log in URLs and file names.
func originHash(origin string) string {
	sum := sha256.Sum256([]byte(origin))
	return hex.EncodeToString(sum[:])
}

// Errors about a well-formed checkpoint to cosign.
var (
	ErrUnknown      = errors.New("unknown log")
	ErrUnsigned     = errors.New("no valid signature of the log")
	ErrOld          = errors.New("old size is larger than the checkpoint's")
	ErrInconsistent = errors.New("it does not extend the last checkpoint")
)

// SizeError is returned if the old size differs from the last cosigned checkpoint. Try again with a proof from the
// size in the error.
type SizeError struct{ Size int64 }

// Error says which size it is.
func (e *SizeError) Error() string { return fmt.Sprintf("the last checkpoint has size %d", e.Size) }

// Add cosigns a checkpoint with a proof that its tree continues the last one, which has the size old. It
// returns the signature line. Before that, the checkpoint is on disk.
func (w *Witness) Add(old int64, proof tlog.TreeProof, signed []byte) ([]byte, error) {
	is, err := headlog.Unverified(signed)
	if err != nil && !errors.Is(err, headlog.ErrInconsistent) {
		return nil, err
	}
	log, ok := w.logs[is.Origin]
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrUnknown, is.Origin)
	}
	at, openErr := headlog.Open(signed, log)
	switch {
	case errors.Is(openErr, headlog.ErrUnknownLog) || errors.Is(openErr, headlog.ErrForged):
		return nil, fmt.Errorf("%w: %w", ErrUnsigned, openErr)
	case openErr != nil && !errors.Is(openErr, headlog.ErrInconsistent):
		return nil, openErr
	case old > is.N:
		return nil, ErrOld
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	last, before, err := w.Last(is.Origin)
	switch {
	case err != nil:
		return nil, err
	case old != last.N:
		return nil, &SizeError{last.N}
	case openErr != nil:
		return nil, fmt.Errorf("%w: %w", ErrInconsistent, openErr)
	case old == 0 && len(proof) > 0:
		return nil, fmt.Errorf("%w: a tree extends the empty one without a proof", ErrInconsistent)
	case old > 0:
		if err := tlog.CheckTree(proof, at.N, at.Hash, last.N, last.Hash); err != nil {
			return nil, fmt.Errorf("%w: last %s, now %s", ErrInconsistent, last, at)
		}
	}
	return w.cosign(at, signed, before, log)
}

// cosign signs a checkpoint and stores it. Even if the clock was set back, it is not older than the previous one.
func (w *Witness) cosign(at headlog.Checkpoint, signed, before []byte, log note.Verifier) ([]byte, error) {
	n, err := note.Open(signed, note.VerifierList(log)) // drops other signatures
	if err != nil {
		return nil, fmt.Errorf("cosign: %w", err)
	}
	alone, err := note.Sign(&note.Note{Text: n.Text}, w.by.NotBefore(before))
	if err != nil {
		return nil, fmt.Errorf("cosign: %w", err)
	}
	line := alone[len(n.Text)+1:]
	stored, err := note.Sign(&note.Note{Text: n.Text, Sigs: n.Sigs})
	if err != nil {
		return nil, fmt.Errorf("cosign: %w", err)
	}
	if err := w.store(at.Origin, append(stored, line...)); err != nil {
		return nil, fmt.Errorf("store checkpoint of %s: %w", at.Origin, err)
	}
	return line, nil
}

// store replaces the file of a log. When it returns, the new one survives a loss of power.
func (w *Witness) store(origin string, signed []byte) error {
	if err := maybe.WriteFile(w.file(origin), signed, 0o600); err != nil {
		return err //nolint:wrapcheck // the caller names the operation
	}
	dir, err := os.Open(w.dir)
	if err != nil {
		return err //nolint:wrapcheck // likewise
	}
	return errors.Join(dir.Sync(), dir.Close())
}
