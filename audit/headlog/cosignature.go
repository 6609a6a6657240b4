package headlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	cosignatures "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"github.com/turnlog/turnlog/content"
)

// Cosigner signs checkpoints as a witness, with the time, in the form of tlog-cosignature for Ed25519.
type Cosigner struct {
	note.Verifier

	key  string
	sign func(text []byte) []byte
	now  func() time.Time
}

// NewCosigner returns a cosigner. key is the verifier key of an Ed25519 key in the form for logs, sign signs a text
// with that key, and now is the clock.
func NewCosigner(key string, sign func([]byte) []byte, now func() time.Time) (*Cosigner, error) {
	key, err := cosignatures.VKeyToCosignatureV1(key)
	if err != nil {
		return nil, fmt.Errorf("key of a witness: %w", err)
	}
	v, err := ParseWitnessKey(key)
	if err != nil {
		return nil, err
	}
	return &Cosigner{Verifier: v, key: key, sign: sign, now: now}, nil
}

// Key returns the verifier key of the witness, for policies.
func (c *Cosigner) Key() string { return c.key }

// Sign returns a timestamped signature over the text of a checkpoint.
func (c *Cosigner) Sign(text []byte) ([]byte, error) {
	return c.signAt(c.now().Unix(), text)
}

// NotBefore returns a signer for the witness whose signatures are never earlier than its signature on the given
// note, if there is one.
func (c *Cosigner) NotBefore(signed []byte) note.Signer {
	n, err := note.Open(signed, note.VerifierList(c))
	if err != nil {
		return c
	}
	last, err := cosignatures.CoSigV1Timestamp(n.Sigs[0])
	if err != nil {
		return c
	}
	return &notBefore{c, last.Unix()}
}

type notBefore struct {
	*Cosigner

	last int64
}

func (c *notBefore) Sign(text []byte) ([]byte, error) {
	return c.signAt(max(c.now().Unix(), c.last), text)
}

func (c *Cosigner) signAt(at int64, text []byte) ([]byte, error) {
	if at <= 0 {
		return nil, fmt.Errorf("cosign: the time %d is out of range", at)
	}
	out := binary.BigEndian.AppendUint64(nil, uint64(at))
	return append(out, c.sign(fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", at, text))...), nil
}

// ParseLogKey parses the verifier key of a log, which has an Ed25519 key.
func ParseLogKey(key string) (note.Verifier, error) {
	v, err := note.NewVerifier(key)
	if err != nil {
		return nil, fmt.Errorf("key of a log %q: %w: use name+hash+key, as \"turnlog notary key\" prints it", content.Clip(key, 80), err)
	}
	return v, nil
}

// ParseWitnessKey parses the verifier key of a witness, which has an Ed25519 or an ML-DSA-44 key for
// cosignatures.
func ParseWitnessKey(key string) (note.Verifier, error) {
	v, err := cosignatures.NewVerifierForCosignatureV1(key)
	if err == nil {
		_, rest, _ := strings.Cut(key, "+")
		hash, _, _ := strings.Cut(rest, "+")
		if said, bad := strconv.ParseUint(hash, 16, 32); bad != nil || said != uint64(v.KeyHash()) {
			err = errors.New("the hash is not that of a cosignature key")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("key of a witness %q: %w: use name+hash+key, as \"turnlog witness key\" prints it", content.Clip(key, 80), err)
	}
	return v, nil
}
