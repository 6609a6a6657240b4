package seal

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/google/renameio/v2/maybe"

	"github.com/turnlog/turnlog/internal/textfile"
)

// ErrBadKey is returned for a key or a file of keys that is not valid, or that others can read. The error says why.
var ErrBadKey = errors.New("bad seal key")

// ErrOtherKey is returned by Ring.Unwrap for a key that no wrapper of the ring wrapped. Use the seal key that the
// error names.
var ErrOtherKey = errors.New("sealed with another seal key")

// Wrapper encrypts the keys of sessions with a key that is not in NATS: in a file, or in a KMS that never reveals
// it. Implementations are safe for concurrent use.
type Wrapper interface {
	// ID names the wrapping key. It consists of up to 64 letters, digits, '-' and '_'.
	ID() string

	// Wrap encrypts the key of a session. Unwrap must fail unless it gets the same value of bound.
	Wrap(ctx context.Context, secret, bound []byte) ([]byte, error)

	// Unwrap reverses Wrap.
	Unwrap(ctx context.Context, wrapped, bound []byte) ([]byte, error)
}

// Ring holds the wrappers of a process. The first one wraps new keys; the others only unwrap keys that they wrapped
// earlier. An empty ring opens nothing.
type Ring []Wrapper

// IDs returns the names of the wrappers. The first one wraps new keys.
func (r Ring) IDs() []string {
	ids := make([]string, len(r))
	for i, w := range r {
		ids[i] = w.ID()
	}
	return ids
}

// Wrap wraps a key with the first wrapper and returns the wrapper's name. bound says what the key is for.
func (r Ring) Wrap(ctx context.Context, k *Key, bound []byte) (id string, wrapped []byte, err error) {
	if len(r) == 0 {
		return "", nil, fmt.Errorf("%w: no key", ErrOtherKey)
	}
	if wrapped, err = r[0].Wrap(ctx, k.secret[:], bound); err != nil {
		return "", nil, fmt.Errorf("wrap with seal key %s: %w", r[0].ID(), err)
	}
	return r[0].ID(), wrapped, nil
}

// Unwrap unwraps a key with the named wrapper. It returns ErrOtherKey if the ring does not have it.
func (r Ring) Unwrap(ctx context.Context, id string, wrapped, bound []byte) (*Key, error) {
	i := slices.IndexFunc(r, func(w Wrapper) bool { return w.ID() == id })
	if i < 0 {
		return nil, fmt.Errorf("%w: %s", ErrOtherKey, id)
	}
	secret, err := r[i].Unwrap(ctx, wrapped, bound)
	if err != nil {
		return nil, fmt.Errorf("unwrap with seal key %s: %w", id, err)
	}
	return KeyOf(secret)
}

// local wraps with a key in memory.
type local struct {
	*Key

	name string
}

const (
	linePrefix = "turnlog-seal-key-v1:" // begins each line of a file
	nameSize   = 8                      // bytes of a hash
	maxFile    = 64 << 10
)

func newLocal(secret []byte) (*local, error) {
	k, err := KeyOf(secret)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append([]byte("turnlog-seal-wrapper/v1\n"), secret...))
	return &local{k, hex.EncodeToString(sum[:nameSize])}, nil
}

// ID returns the start of a hash of the key.
func (l *local) ID() string { return l.name }

// Wrap encrypts a key.
func (l *local) Wrap(_ context.Context, secret, bound []byte) ([]byte, error) {
	return l.Box(secret, bound), nil
}

// Unwrap reverses Wrap.
func (l *local) Unwrap(_ context.Context, wrapped, bound []byte) ([]byte, error) {
	return l.Unbox(wrapped, bound)
}

// Read reads the keys in a file, one per line. It returns ErrBadKey for a file without keys, for one with anything
// else, and for one that other users of the machine can read.
func Read(file string) (Ring, error) {
	secrets, err := read(file)
	if err != nil {
		return nil, err
	}
	var ring Ring
	for _, s := range secrets {
		w, err := newLocal(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		ring = append(ring, w)
	}
	return ring, nil
}

func read(file string) (secrets [][]byte, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("read seal key: %w", err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%w: %s can be read by others: run chmod 600 on it", ErrBadKey, file)
	}
	raw, err := textfile.ReadFile(file, maxFile)
	if err != nil {
		return nil, fmt.Errorf("read seal key: %w", err)
	}
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		text, ok := strings.CutPrefix(line, linePrefix)
		secret, err := base64.RawURLEncoding.DecodeString(text)
		if !ok || err != nil || len(secret) != KeySize {
			return nil, fmt.Errorf("%w: line %d of %s is not a seal key (use a file of \"turnlog seal init\")", ErrBadKey, len(secrets)+1, file)
		}
		secrets = append(secrets, secret)
	}
	if len(secrets) == 0 {
		return nil, fmt.Errorf("%w: %s is empty", ErrBadKey, file)
	}
	return secrets, nil
}

// Create writes a new key to a new file that only its owner can read, and returns its name.
func Create(file string) (id string, err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("write seal key: %w", err)
	}
	id, line := newLine()
	_, err = f.WriteString(line)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", fmt.Errorf("write seal key %s: %w", file, err)
	}
	return id, nil
}

// Rotate adds a new key before the keys in a file, and returns its name.
func Rotate(file string) (id string, err error) {
	secrets, err := read(file)
	if err != nil {
		return "", err
	}
	id, line := newLine()
	text := []byte(line)
	for _, s := range secrets {
		text = append(text, lineOf(s)...)
	}
	if err := maybe.WriteFile(file, text, 0o600); err != nil {
		return "", fmt.Errorf("write seal key %s: %w", file, err)
	}
	return id, nil
}

func newLine() (id, line string) {
	secret := make([]byte, KeySize)
	_, _ = rand.Read(secret) // it never fails
	w, _ := newLocal(secret) // it has the right size
	return w.name, lineOf(secret)
}

func lineOf(secret []byte) string {
	return linePrefix + base64.RawURLEncoding.EncodeToString(secret) + "\n"
}
