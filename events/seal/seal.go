// Package seal encrypts the content of a session, so that it can be erased by destroying one small key.
//
// Each sealed session has its own [Key], which encrypts all of its content before it is sent anywhere. The key is
// stored with the session, but only wrapped: encrypted by a [Wrapper], whose own key is outside of NATS. Reading the
// content takes both keys. Destroying the wrapped key erases the content in all copies.
//
// Guarantees: content is encrypted with XChaCha20-Poly1305 under random 192-bit nonces, so no nonce occurs twice,
// even if two drivers seal entries at the same place. Bytes that are sealed for one purpose open for no other. The
// [ID] of a key commits to it: no other key has the same ID, so sealed bytes have only one meaning.
//
// The package does not depend on NATS or sessions. A [Ring] holds the wrappers of a process; [Read] reads one from a
// file.
package seal

import (
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"
)

// Sizes in bytes.
const (
	KeySize   = chacha20poly1305.KeySize
	NonceSize = chacha20poly1305.NonceSizeX
	Overhead  = chacha20poly1305.Overhead // added to the plain bytes, in addition to the nonce
)

// ErrNotOpened is returned for bytes that were not sealed with this key for this purpose, or were changed since.
var ErrNotOpened = errors.New("the sealed bytes cannot be decrypted")

// ID names a key. It is a hash of the key, which does not reveal the key.
type ID [sha256.Size]byte

// String returns the ID in hexadecimal.
func (i ID) String() string { return hex.EncodeToString(i[:]) }

// Short returns the start of the ID, for people.
func (i ID) Short() string { return hex.EncodeToString(i[:8]) }

// Nonce is a random number for one sealing.
type Nonce [NonceSize]byte

// NewNonce returns a nonce that was never used.
func NewNonce() (n Nonce) {
	_, _ = rand.Read(n[:]) // it never fails
	return n
}

// Key seals the content of one session. It is safe for concurrent use.
type Key struct {
	id     ID
	secret [KeySize]byte
	aead   cipher.AEAD
}

// New returns a new key.
func New() *Key {
	var secret [KeySize]byte
	_, _ = rand.Read(secret[:]) // it never fails
	k, _ := KeyOf(secret[:])    // it has the right size
	return k
}

// KeyOf returns the key with a secret.
func KeyOf(secret []byte) (*Key, error) {
	aead, err := chacha20poly1305.NewX(secret)
	if err != nil {
		return nil, fmt.Errorf("%w: the key of a session has %d bytes, not %d", ErrBadKey, len(secret), KeySize)
	}
	return &Key{id: sha256.Sum256(append([]byte("turnlog-seal-key/v1\n"), secret...)), secret: [KeySize]byte(secret), aead: aead}, nil
}

// ID returns the name of the key.
func (k *Key) ID() ID { return k.id }

// Digest returns a digest that only holders of the key can compute.
func (k *Key) Digest(what []byte) [sha256.Size]byte {
	h := hmac.New(sha256.New, append([]byte("turnlog-seal-digest/v1\n"), k.secret[:]...))
	_, _ = h.Write(what) // it never fails
	return [sha256.Size]byte(h.Sum(nil))
}

// Equal reports whether two keys are the same.
func (k *Key) Equal(other *Key) bool {
	return k == other || k != nil && other != nil && k.id == other.id
}

// Seal appends the sealed form of plain to dst. bound is not included, but the bytes open only with the same bound.
func (k *Key) Seal(dst []byte, n Nonce, plain, bound []byte) []byte {
	return k.aead.Seal(dst, n[:], plain, bound)
}

// Open reverses Seal. It returns ErrNotOpened for any other bytes.
func (k *Key) Open(n Nonce, sealed, bound []byte) ([]byte, error) {
	plain, err := k.aead.Open(nil, n[:], sealed, bound)
	if err != nil {
		return nil, ErrNotOpened
	}
	return plain, nil
}

// Box returns a new nonce, followed by plain sealed under it.
func (k *Key) Box(plain, bound []byte) []byte {
	n := NewNonce()
	return k.Seal(append(make([]byte, 0, NonceSize+len(plain)+Overhead), n[:]...), n, plain, bound)
}

// Unbox reverses Box. It returns ErrNotOpened for any other bytes.
func (k *Key) Unbox(box, bound []byte) ([]byte, error) {
	if len(box) < NonceSize+Overhead {
		return nil, ErrNotOpened
	}
	return k.Open(Nonce(box[:NonceSize]), box[NonceSize:], bound)
}
