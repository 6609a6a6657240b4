package seal_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/events/seal"
)

func TestABoxOpensOnlyWithItsKeyAndPurpose(t *testing.T) {
	t.Parallel()
	key, plain := seal.New(), []byte("nobody may read this")
	box := key.Box(plain, []byte("for a test"))
	if got, err := key.Unbox(box, []byte("for a test")); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("Unbox = %q, %v", got, err)
	}
	if bytes.Contains(box, plain) || bytes.Equal(box, key.Box(plain, []byte("for a test"))) {
		t.Error("the box shows what it holds, or equal boxes are equal")
	}
	changed := bytes.Clone(box)
	changed[len(changed)-1]++
	for name, err := range map[string]error{
		"another key":     second(seal.New().Unbox(box, []byte("for a test"))),
		"another purpose": second(key.Unbox(box, []byte("for another"))),
		"changed":         second(key.Unbox(changed, []byte("for a test"))),
		"short":           second(key.Unbox(box[:20], []byte("for a test"))),
	} {
		if !errors.Is(err, seal.ErrNotOpened) {
			t.Errorf("%s: Unbox = %v, want ErrNotOpened", name, err)
		}
	}
}

func second(_ []byte, err error) error { return err }

func TestARingUnwrapsWhatEachOfItsKeysWrapped(t *testing.T) {
	t.Parallel()
	ctx, file := t.Context(), filepath.Join(t.TempDir(), "seal.key")
	first, err := seal.Create(file)
	old, readErr := seal.Read(file)
	if err := errors.Join(err, readErr); err != nil {
		t.Fatal(err)
	}
	key, bound := seal.New(), []byte("cell/s-1")
	id, wrapped, err := old.Wrap(ctx, key, bound)
	if err != nil || id != first {
		t.Fatalf("Wrap = %s, %v, want %s", id, err, first)
	}
	if _, err := seal.Create(file); err == nil {
		t.Error("Create replaced a file")
	}
	second, err := seal.Rotate(file)
	ring, readErr := seal.Read(file)
	if err := errors.Join(err, readErr); err != nil || len(ring) != 2 || ring.IDs()[0] != second || ring.IDs()[1] != first {
		t.Fatalf("after Rotate the ring is %v, %v, want %s, %s", ring.IDs(), err, second, first)
	}
	if got, err := ring.Unwrap(ctx, first, wrapped, bound); err != nil || !got.Equal(key) {
		t.Errorf("Unwrap = %v, want the key", err)
	}
	if _, err := ring.Unwrap(ctx, first, wrapped, []byte("cell/s-2")); !errors.Is(err, seal.ErrNotOpened) {
		t.Errorf("Unwrap for another session = %v, want ErrNotOpened", err)
	}
	if _, err := ring[:1].Unwrap(ctx, first, wrapped, bound); !errors.Is(err, seal.ErrOtherKey) || !strings.Contains(err.Error(), first) {
		t.Errorf("Unwrap without the key = %v, want ErrOtherKey that names it", err)
	}
	if _, _, err := seal.Ring(nil).Wrap(ctx, key, bound); !errors.Is(err, seal.ErrOtherKey) {
		t.Errorf("Wrap with an empty ring = %v", err)
	}
}

func TestOtherFilesAreNoSealKeys(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "seal.key")
	for name, text := range map[string]string{
		"empty": "\n", "a word": "secret", "a short key": "turnlog-seal-key-v1:c2hvcnQ", "no base64": "turnlog-seal-key-v1:!",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := seal.Read(file); !errors.Is(err, seal.ErrBadKey) {
			t.Errorf("%s: Read = %v, want ErrBadKey", name, err)
		}
	}
	if _, err := seal.Read(file + ".none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Read of no file = %v", err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := os.Chmod(file, 0o644); err != nil { //nolint:gosec // the test is about it
		t.Fatal(err)
	}
	if _, err := seal.Read(file); !errors.Is(err, seal.ErrBadKey) || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("Read of a file for all = %v", err)
	}
}

// vault is a KMS that never hands out its key.
type vault struct{ key *seal.Key }

func (v vault) ID() string { return "vault-1" }

func (v vault) Wrap(_ context.Context, secret, bound []byte) ([]byte, error) {
	return v.key.Box(secret, bound), nil
}

func (v vault) Unwrap(_ context.Context, wrapped, bound []byte) ([]byte, error) {
	secret, err := v.key.Unbox(wrapped, bound)
	return append(secret, 0), err // a key of another length
}

func TestAWrapperMayBeAnything(t *testing.T) {
	t.Parallel()
	ring := seal.Ring{vault{seal.New()}}
	id, wrapped, err := ring.Wrap(t.Context(), seal.New(), nil)
	if err != nil || id != "vault-1" {
		t.Fatalf("Wrap = %s, %v", id, err)
	}
	if _, err := ring.Unwrap(t.Context(), id, wrapped, nil); !errors.Is(err, seal.ErrBadKey) {
		t.Errorf("Unwrap of a key that is none = %v, want ErrBadKey", err)
	}
}
