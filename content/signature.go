package content

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// Signature is a signature by a key of the deployment's directory of keys. Package audit/keys makes and
// checks it.
type Signature struct {
	Key   string `msgpack:"k" json:"key"`   // the key's id
	Bytes []byte `msgpack:"b" json:"bytes"` // Ed25519
}

// IsZero reports whether there is no signature.
func (s Signature) IsZero() bool { return s.Key == "" && len(s.Bytes) == 0 }

// String returns the signature as headers have it: the key's id, a dot, and the bytes in URL-safe base64.
// It is empty for the zero Signature.
func (s Signature) String() string {
	if s.IsZero() {
		return ""
	}
	return s.Key + "." + base64.RawURLEncoding.EncodeToString(s.Bytes)
}

// ErrBadSignature is returned by ParseSignature for text of another form.
var ErrBadSignature = errors.New("bad signature")

// ParseSignature decodes the result of String.
func ParseSignature(text string) (Signature, error) {
	if text == "" {
		return Signature{}, nil
	}
	key, encoded, ok := strings.Cut(text, ".")
	raw, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if !ok || err != nil || !IsToken(key) {
		return Signature{}, fmt.Errorf("%w: %q is not a key's id, a dot and base64", ErrBadSignature, Clip(text, 200))
	}
	return Signature{Key: key, Bytes: raw}, nil
}
