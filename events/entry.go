package events

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/seal"
	"github.com/turnlog/turnlog/internal/wire"
)

// The entry formats that this release reads and writes.
const (
	Version       = 1 // events are not sealed
	VersionSealed = 2 // events are sealed, except those of drivers

	newestVersion = VersionSealed
)

// ErrBadEntry is returned for bytes that are not an entry. The journal is damaged or
// was not written by Turnlog. Do not append to it.
var ErrBadEntry = errors.New("bad entry")

// Hash is the SHA-256 of an entry's exact bytes.
type Hash [sha256.Size]byte

// HashOf hashes the exact bytes of an entry.
func HashOf(payload []byte) Hash { return sha256.Sum256(payload) }

// String returns the hash in hexadecimal.
func (h Hash) String() string {
	var b [2 * sha256.Size]byte
	hex.Encode(b[:], h[:])
	return string(b[:])
}

// Compare orders hashes.
func (h Hash) Compare(o Hash) int { return bytes.Compare(h[:], o[:]) }

// IsZero reports whether h is the predecessor of a journal's first entry.
func (h Hash) IsZero() bool { return h == Hash{} }

// MarshalText returns the hash in hexadecimal.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText decodes the result of MarshalText.
func (h *Hash) UnmarshalText(b []byte) error {
	if len(b) != 2*sha256.Size {
		return fmt.Errorf("hash %q: want %d hexadecimal digits", b, 2*sha256.Size)
	}
	if _, err := hex.Decode(h[:], b); err != nil {
		return fmt.Errorf("hash %q: %w", b, err)
	}
	return nil
}

// EncodeMsgpack encodes the hash as bytes.
func (h Hash) EncodeMsgpack(e *msgpack.Encoder) error { return e.EncodeBytes(h[:]) }

// DecodeMsgpack decodes the result of EncodeMsgpack.
func (h *Hash) DecodeMsgpack(d *msgpack.Decoder) error {
	b, err := d.DecodeBytes()
	if err != nil {
		return err
	}
	if len(b) != len(h) {
		return fmt.Errorf("%w: hash of %d bytes", ErrBadEntry, len(b))
	}
	copy(h[:], b)
	return nil
}

// Lane separates the commands of a session by the sender's permissions.
type Lane string

// The lanes.
const (
	LaneAsk    Lane = "ask"    // clients
	LaneDecide Lane = "decide" // approvers
	LaneReport Lane = "report" // workers
	LaneDue    Lane = "due"    // timers, written only by the NATS server
	LaneLocal  Lane = ""       // the host itself
)

// anyUser is the suffix of lanes for commands of users with verified names.
const anyUser = ".*"

// Named returns the lane of the same commands from users whose names the NATS server verifies.
func (l Lane) Named() Lane { return l + anyUser }

// Unnamed returns the lane of the same commands from users without verified names.
func (l Lane) Unnamed() Lane { return Lane(strings.TrimSuffix(string(l), anyUser)) }

// Cursor says how far a lane is handled. A sequence alone identifies a command only while the stream keeps
// what it has acknowledged. A stream that was rolled back or created again uses a sequence a second time,
// but its time of storage is different.
type Cursor struct {
	Lane Lane         `msgpack:"l" json:"lane"`
	Seq  uint64       `msgpack:"s" json:"seq"`                    // sequence of the last handled command
	At   content.Time `msgpack:"t,omitempty" json:"at,omitempty"` // the latest time at which a handled command was stored; 0: not recorded
}

// Advance replaces the cursors of lanes that moved. It changes all and returns it, with any new lanes appended.
func Advance(all, moved []Cursor) []Cursor {
	for _, c := range moved {
		if i := slices.IndexFunc(all, func(d Cursor) bool { return d.Lane == c.Lane }); i >= 0 {
			all[i] = c
		} else {
			all = append(all, c)
		}
	}
	return all
}

// Entry is one atomic append to a journal.
type Entry struct {
	Version int               `json:"v"`
	Session content.SessionID `json:"session"`
	Seq     uint64            `json:"seq"`   // 1, 2, 3, … without gaps
	Prev    Hash              `json:"prev"`  // hash of the previous entry; zero for the first
	Cause   string            `json:"cause"` // ID of the command, or of the first of several results
	At      content.Time      `json:"at"`
	Epoch   uint64            `json:"epoch"`
	Cursors []Cursor          `json:"cursors,omitempty"` // lanes that advanced with this entry
	Sealing *Sealing          `json:"-"`                 // of VersionSealed: how its events are sealed
	Events  []Event           `json:"-"`
}

// Kinds returns the kinds of the entry's events, in order.
func (e Entry) Kinds() []Kind { return e.AppendKinds(make([]Kind, 0, len(e.Events))) }

// AppendKinds appends the kinds of the entry's events, in order.
func (e Entry) AppendKinds(to []Kind) []Kind {
	if e.Sealing != nil && e.Sealing.Kinds != nil {
		return append(to, e.Sealing.Kinds...)
	}
	for _, ev := range e.Events {
		to = append(to, KindOf(ev))
	}
	return to
}

const entryFields = 9

// fieldsOf returns how many fields an entry of a format has.
func fieldsOf(version int) int {
	if version == VersionSealed {
		return entryFields + sealingFields
	}
	return entryFields
}

// Encode returns the bytes of e: an array of its fields, with its events as pairs of
// kind and fields. Equal entries have equal bytes. Encode returns an error if items
// nest too deeply for Decode.
//
// The events of an entry with a Sealing are sealed, with its key and nonce.
func (e Entry) Encode() (b []byte, err error) {
	if e.Version == VersionSealed {
		b, err = e.encodeSealed()
	} else {
		b, err = wire.Encode(wire.Entry, e.encode)
	}
	if err != nil {
		return nil, fmt.Errorf("encode entry %s/%d: %w", e.Session, e.Seq, err)
	}
	return b, nil
}

// encode writes an entry whose events are not sealed.
func (e *Entry) encode(w *wire.Writer) error {
	return errors.Join(e.encodeHead(w), encodeEvents(w, e.Events))
}

// encodeHead writes the fields before the events.
func (e *Entry) encodeHead(w *wire.Writer) error {
	w.Array(fieldsOf(e.Version))
	w.Int(int64(e.Version))
	w.Text(string(e.Session))
	w.Uint(e.Seq)
	w.Bytes(e.Prev[:])
	w.Text(e.Cause)
	w.Int(int64(e.At))
	w.Uint(e.Epoch)
	return w.Value(e.Cursors)
}

// IsExactly reports whether Encode would return the payload, which Decode accepted. It is faster than Encode.
func (e Entry) IsExactly(payload []byte) bool {
	if e.Version == VersionSealed {
		b, err := e.encodeSealed()
		return err == nil && bytes.Equal(b, payload)
	}
	return wire.Writes(payload, e.encode)
}

// IsPartOf reports whether the payload has the contents of e, and more in fields that this release does not know. A later
// release wrote such a payload.
func (e Entry) IsPartOf(payload []byte) bool {
	known, err := e.Encode()
	return err == nil && wire.Extends(payload, known)
}

func encodeEvents(w *wire.Writer, evs []Event) error {
	w.Array(2 * len(evs))
	for _, ev := range evs {
		w.Text(string(KindOf(ev)))
		if err := w.Value(ev); err != nil {
			return err
		}
	}
	return nil
}

// Decode decodes an entry. It returns [ErrBadEntry] for anything else. For an unknown
// event it returns [ErrUnknownKind] and the entry up to that event. For an entry of a
// later format it returns a [*FormatError], which is an ErrUnknownKind, and the head
// of the entry if possible, otherwise Seq 0. For sealed events it returns a
// [*SealedError], which is an ErrUnknownKind, and the entry with its other events; Open
// opens them.
func Decode(payload []byte) (Entry, error) { return Open(payload, nil) }

// Open is Decode with the key of the session. A nil key opens nothing.
func Open(payload []byte, key *seal.Key) (Entry, error) {
	var e Entry
	err := wire.Decode(payload, wire.Entry, func(r *wire.Reader) (err error) {
		if err = e.decodeHead(r); err != nil {
			return err
		}
		if e.Version == VersionSealed {
			return e.decodeSealed(r, payload, key)
		}
		e.Events, err = decodeEvents(r)
		return err
	})
	if newer, ok := errors.AsType[*FormatError](err); ok {
		return e, newer
	}
	if sealed, ok := errors.AsType[*SealedError](err); ok {
		return e, sealed
	}
	switch {
	case errors.Is(err, ErrUnknownKind):
		return e, fmt.Errorf("entry %s/%d: %w", e.Session, e.Seq, err)
	case err != nil:
		return e, fmt.Errorf("%w: %w", ErrBadEntry, err)
	}
	return e, nil
}

// DecodeHead is Decode without the events.
func DecodeHead(payload []byte) (e Entry, err error) {
	if err := wire.Decode(payload, wire.Entry, e.decodeHead); err != nil {
		return e, fmt.Errorf("%w: %w", ErrBadEntry, err)
	}
	return e, nil
}

// decodeEvents returns the events before an error together with the error.
func decodeEvents(r *wire.Reader) ([]Event, error) {
	n, err := r.Array()
	if err != nil || n < 0 || n%2 != 0 {
		return nil, errors.New("events are not pairs of kind and fields")
	}
	evs := make([]Event, 0, n/2)
	for range n / 2 {
		kind, err := r.Text()
		if err != nil {
			return evs, err
		}
		ev, err := decodeEvent(Kind(kind), r)
		if err != nil {
			return evs, err
		}
		evs = append(evs, ev)
	}
	return evs, nil
}

// decodeHead decodes the fields before the events. In every format, an entry is an array that begins with
// the version. If a later format has not changed the head, decodeHead decodes it too.
func (e *Entry) decodeHead(r *wire.Reader) error {
	n, err := r.Array()
	if err != nil {
		return err
	}
	if err := r.Value(&e.Version); err != nil {
		return err
	}
	if err = r.Values(&e.Session, &e.Seq); err == nil {
		err = r.Fixed(e.Prev[:])
	}
	if err == nil {
		err = r.Values(&e.Cause, &e.At, &e.Epoch, &e.Cursors)
	}
	switch {
	case e.Version > newestVersion:
		if err != nil {
			*e = Entry{Version: e.Version}
		}
		return &FormatError{e.Version}
	case err != nil:
		return err
	case n != fieldsOf(e.Version):
		return fmt.Errorf("%d fields, want %d", n, fieldsOf(e.Version))
	case e.Version < 1:
		return fmt.Errorf("format version %d; this release reads 1 to %d", e.Version, newestVersion)
	}
	return nil
}

// EncodeLive encodes one event that is not [Journaled], for live delivery.
func EncodeLive(ev Event) ([]byte, error) {
	b, err := wire.Encode(wire.Entry, func(w *wire.Writer) error {
		w.Library().UseCompactFloats(false)
		return encodeEvents(w, []Event{ev})
	})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", KindOf(ev), err)
	}
	return b, nil
}

// DecodeLive decodes the result of EncodeLive. It returns [ErrBadEntry] or [ErrUnknownKind] for anything
// else, which the caller can skip. That includes events that belong in a journal: more users may send live
// events than write journals.
func DecodeLive(b []byte) (ev Event, err error) {
	err = wire.Decode(b, wire.Entry, func(r *wire.Reader) error {
		if n, err := r.Array(); err != nil || n != 2 {
			return errors.New("not a live event")
		}
		kind, err := r.Text()
		if err == nil {
			ev, err = decodeEvent(Kind(kind), r)
		}
		if err == nil && Journaled(Kind(kind)) {
			err = fmt.Errorf("%s is for journals", kind)
		}
		return err
	})
	if err != nil && !errors.Is(err, ErrUnknownKind) {
		return nil, fmt.Errorf("%w: %w", ErrBadEntry, err)
	}
	return ev, err
}
