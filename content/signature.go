package content

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
)

// Signature is a signature by a key of the deployment's directory of keys. Package audit/keys makes and
// checks it.
type Signature struct {
	Key   string `msgpack:"k" json:"key"`   // the key's id
	Bytes []byte `msgpack:"b" json:"bytes"` // Ed25519
}

// IsZero reports whether there is no signature.
func (s Signature) IsZero() bool { return s.Key == "" && len(s.Bytes) == 0 }

// String returns the signature in its form for headers: the key's id, a dot, and the bytes in URL-safe base64.
// It is empty for the zero Signature.
func (s Signature) String() string {
	return string(s.Append(nil))
}

// Append appends what String returns.
func (s Signature) Append(b []byte) []byte {
	if s.IsZero() {
		return b
	}
	return base64.RawURLEncoding.AppendEncode(append(append(b, s.Key...), '.'), s.Bytes)
}

// ErrBadSignature is returned by ParseSignature for text in any other form.
var ErrBadSignature = errors.New("bad signature")

// ParseSignature decodes the result of String.
func ParseSignature(text []byte) (Signature, error) {
	if len(text) == 0 {
		return Signature{}, nil
	}
	key, encoded, ok := bytes.Cut(text, []byte{'.'})
	raw := make([]byte, base64.RawURLEncoding.DecodedLen(len(encoded)))
	n, err := base64.RawURLEncoding.Strict().Decode(raw, encoded)
	s := Signature{Key: string(key), Bytes: raw[:n]}
	if !ok || err != nil || !IsToken(s.Key) {
		return Signature{}, fmt.Errorf("%w: %q is not KEY.BASE64", ErrBadSignature, Clip(string(text), 200))
	}
	return s, nil
}
