// Package keys holds the keys with which nodes, workers and people sign what they do, and the directory
// that says who owns each key.
//
// Each signer has its own Ed25519 key in a file. It is never the key of the signer's NATS connection: a NATS
// client signs whatever the server sends. An offline root signs the [Directory], a text with every key, its
// owner, its roles and its dates. Anyone who has the root's public key can check the directory, so it may be
// stored anywhere. The root's private key is needed only to change the directory, and does not belong on any
// machine of the deployment.
//
// A signature covers a text that begins with its purpose, see [Text], so it cannot be used for another
// purpose, cell or session. A directory keeps every key that it ever had, with the dates of its revocation,
// so old signatures can be checked for as long as the journals exist.
//
// Private keys and their public halves have the text form of nkeys: a root's key begins with SO and O, any
// other with SU and U.
package keys

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/nats-io/nkeys"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/textfile"
)

// ErrBadKey is returned for text that is not a key of the required kind. The error names the kind.
var ErrBadKey = errors.New("bad key")

// Signer is a private key. It is immutable and safe for concurrent use. A nil *Signer signs nothing.
type Signer struct {
	private ed25519.PrivateKey
	public  string
	id      string
}

// idSize is how many bytes of a key's hash are its id. No two keys of a directory have the same id.
const idSize = 12

// ID returns the id of a public key, which signatures name.
func ID(public string) string {
	sum := sha256.Sum256([]byte(public))
	return base64.RawURLEncoding.EncodeToString(sum[:idSize])
}

// New returns a new key for a node, a worker or a person.
func New() (*Signer, error) { return generate(nkeys.PrefixByteUser) }

// NewRoot returns a new key for a root.
func NewRoot() (*Signer, error) { return generate(nkeys.PrefixByteOperator) }

func generate(kind nkeys.PrefixByte) (*Signer, error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("generate a key: %w", err)
	}
	return signerOf(kind, private)
}

func signerOf(kind nkeys.PrefixByte, private ed25519.PrivateKey) (*Signer, error) {
	public, err := nkeys.Encode(kind, private.Public().(ed25519.PublicKey)) //nolint:forcetypeassert // of this package
	if err != nil {
		return nil, fmt.Errorf("encode a public key: %w", err)
	}
	return &Signer{private: private, public: string(public), id: ID(string(public))}, nil
}

// Public returns the public key in text form.
func (s *Signer) Public() string { return s.public }

// ID returns the id of the key.
func (s *Signer) ID() string {
	if s == nil {
		return ""
	}
	return s.id
}

// Sign signs a text. A nil Signer returns the zero Signature.
func (s *Signer) Sign(text []byte) content.Signature {
	if s == nil {
		return content.Signature{}
	}
	return content.Signature{Key: s.id, Bytes: ed25519.Sign(s.private, text)}
}

// maxFile is the size limit of a file with a key.
const maxFile = 64 << 10

// Read reads the private key of a node, a worker or a person from a file. It returns ErrBadKey for a file
// without a key, and for a file that other users of the machine can read.
func Read(file string) (*Signer, error) { return read(file, nkeys.PrefixByteUser) }

// ReadRoot reads the private key of a root, like Read.
func ReadRoot(file string) (*Signer, error) { return read(file, nkeys.PrefixByteOperator) }

func read(file string, kind nkeys.PrefixByte) (*Signer, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%w: %s can be read by others: run chmod 600 on it", ErrBadKey, file)
	}
	raw, err := textfile.ReadFile(file, maxFile)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	s, err := parse(raw, kind)
	if err != nil {
		return nil, fmt.Errorf("%w: %s has no private key that begins with S%s (use a file of \"turnlog keys\")", ErrBadKey, file, letter(kind))
	}
	return s, nil
}

func parse(raw []byte, kind nkeys.PrefixByte) (*Signer, error) {
	pair, err := nkeys.ParseDecoratedNKey(raw)
	if err != nil {
		return nil, err //nolint:wrapcheck // its caller says it for people
	}
	seed, err := pair.Seed()
	if err != nil {
		return nil, err //nolint:wrapcheck // likewise
	}
	is, secret, err := nkeys.DecodeSeed(seed)
	if err != nil || is != kind {
		return nil, ErrBadKey
	}
	return signerOf(kind, ed25519.NewKeyFromSeed(secret))
}

// Write writes the private key to a new file that only this user can read. It returns fs.ErrExist if
// there is a file of that name.
func (s *Signer) Write(file string) (err error) {
	kind := nkeys.Prefix(s.public)
	seed, err := nkeys.EncodeSeed(kind, s.private.Seed())
	if err != nil {
		return fmt.Errorf("encode %s: %w", file, err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	_, err = f.Write(append(seed, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write key %s: %w", file, err)
	}
	return nil
}

// decodePublic returns the bytes of a public key in text form.
func decodePublic(kind nkeys.PrefixByte, public string) (ed25519.PublicKey, error) {
	raw, err := nkeys.Decode(kind, []byte(public))
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%w: %q is not a public key that begins with %s", ErrBadKey, content.Clip(public, 80), letter(kind))
	}
	return raw, nil
}

// letter returns how the public keys of a kind begin.
func letter(kind nkeys.PrefixByte) string {
	if kind == nkeys.PrefixByteOperator {
		return "O"
	}
	return "U"
}

// CheckRoot returns ErrBadKey if public is not the public key of a root.
func CheckRoot(public string) error {
	_, err := decodePublic(nkeys.PrefixByteOperator, public)
	return err
}
