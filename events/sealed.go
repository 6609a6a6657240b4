package events

import (
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/seal"
	"github.com/turnlog/turnlog/internal/wire"
)

// Sealing says how the events of an entry are sealed. The head of the entry, the kinds of its events, and the
// events of drivers are not sealed: they say who wrote which entry, and contain nothing of the conversation. So
// a reader without the key can still check the chain, the signatures, and the proofs of a log.
type Sealing struct {
	ID    seal.ID    // ID of the key, which commits to it
	Key   *seal.Key  // nil: not available, so the entry has only the events that are not sealed
	Nonce seal.Nonce // for this entry only
	Kinds []Kind     // kinds of all events, in order; set by Decode
}

// NewSealing returns how to seal another entry with a key.
func NewSealing(k *seal.Key) *Sealing {
	return &Sealing{ID: k.ID(), Key: k, Nonce: seal.NewNonce()}
}

// SealedError is returned for an entry whose events are sealed with a key that is not available. The entry is not
// damaged, and its head is valid. A SealedError is an [ErrUnknownKind], so code that needs the events refuses the
// entry.
type SealedError struct {
	Session content.SessionID
	Seq     uint64  // the entry; 0: not an entry
	ID      seal.ID // ID of the key, if it is known
	Why     error   // why the key is not available; nil: no keys were given
}

// Error says which key is missing, and why.
func (e *SealedError) Error() string {
	what := "session " + string(e.Session)
	if e.Seq > 0 {
		what = fmt.Sprintf("entry %s/%d", e.Session, e.Seq)
	}
	if e.Why == nil {
		return what + " is sealed, and its key is missing: give --seal-key, unless the session was erased"
	}
	return fmt.Sprintf("%s is sealed: %v", what, e.Why)
}

// Is makes the error an [ErrUnknownKind].
func (e *SealedError) Is(target error) bool { return target == ErrUnknownKind }

// Unwrap returns why the key is not available.
func (e *SealedError) Unwrap() error { return e.Why }

// inTheClear reports whether events of a kind are not sealed.
func inTheClear(k Kind) bool { return k == KindDriverClaimed || k == KindParked }

// The fields after the head are the ID of the key, the nonce, the kinds, the events that are not sealed, and the sealed
// events. Everything before the sealed bytes is bound to them.
const sealingFields = 4 // how many more fields than an entry that is not sealed

// encodeSealed encodes the entry with its events sealed. The result has no sealed bytes if there is nothing to seal.
func (e Entry) encodeSealed() ([]byte, error) {
	if e.Sealing == nil {
		return nil, &SealedError{Session: e.Session, Seq: e.Seq}
	}
	kinds := Entry{Events: e.Events}.Kinds()
	var open, closed []Event
	for i, ev := range e.Events {
		if inTheClear(kinds[i]) {
			open = append(open, ev)
		} else {
			closed = append(closed, ev)
		}
	}
	var plain, box []byte
	if len(closed) > 0 {
		if e.Sealing.Key == nil {
			return nil, &SealedError{Session: e.Session, Seq: e.Seq, ID: e.Sealing.ID}
		}
		var err error
		if plain, err = wire.Encode(wire.Entry, func(w *wire.Writer) error { return encodeEvents(w, closed) }); err != nil {
			return nil, err
		}
		box = make([]byte, len(plain)+seal.Overhead)
	}
	b, err := wire.Encode(wire.Entry, func(w *wire.Writer) error {
		err := e.encodeHead(w)
		w.Bytes(e.Sealing.ID[:])
		w.Bytes(e.Sealing.Nonce[:])
		w.Array(len(kinds))
		for _, k := range kinds {
			w.Text(string(k))
		}
		err = errors.Join(err, encodeEvents(w, open))
		w.Bytes(box)
		return err
	})
	if err != nil || len(box) == 0 {
		return b, err
	}
	head := b[:len(b)-len(box)]
	return e.Sealing.Key.Seal(head, e.Sealing.Nonce, plain, head), nil // in place
}

// decodeSealed decodes what follows the head.
func (e *Entry) decodeSealed(r *wire.Reader, payload []byte, key *seal.Key) error {
	e.Sealing = &Sealing{}
	if err := errors.Join(r.Fixed(e.Sealing.ID[:]), r.Fixed(e.Sealing.Nonce[:])); err != nil {
		return err
	}
	n, err := r.Array()
	if err != nil || n < 0 {
		return errors.New("it has no kinds")
	}
	e.Sealing.Kinds = make([]Kind, n)
	for i := range e.Sealing.Kinds {
		kind, err := r.Text()
		if err != nil {
			return err
		}
		e.Sealing.Kinds[i] = Kind(kind)
	}
	if e.Events, err = decodeEvents(r); err != nil {
		return err
	}
	box, err := r.Bytes()
	if err != nil {
		return err
	}
	return e.open(payload[:len(payload)-len(box)], box, key)
}

// open opens the sealed events, and puts all events in order.
func (e *Entry) open(head, box []byte, key *seal.Key) error {
	closed := false
	for _, k := range e.Sealing.Kinds {
		closed = closed || !inTheClear(k)
	}
	var evs []Event
	var unknown error
	switch {
	case key != nil && key.ID() == e.Sealing.ID:
		e.Sealing.Key = key
	case closed && key != nil:
		return &SealedError{Session: e.Session, Seq: e.Seq, ID: e.Sealing.ID, Why: fmt.Errorf("sealed with key %s, not %s", e.Sealing.ID.Short(), key.ID().Short())}
	case closed:
		return &SealedError{Session: e.Session, Seq: e.Seq, ID: e.Sealing.ID}
	}
	if closed {
		plain, err := key.Open(e.Sealing.Nonce, box, head)
		if err == nil {
			err = wire.Decode(plain, wire.Entry, func(r *wire.Reader) (err error) {
				evs, err = decodeEvents(r)
				return err
			})
		}
		if errors.Is(err, ErrUnknownKind) {
			unknown, err = err, nil
		}
		if err != nil {
			return err
		}
	} else if len(box) > 0 {
		return errors.New("it has sealed bytes, but no kind of a sealed event")
	}
	return errors.Join(e.order(evs, unknown != nil), unknown)
}

// order puts the events, sealed and not, in the order of the kinds. If only the events that are not sealed could be read,
// the others are left out.
func (e *Entry) order(closed []Event, cut bool) error {
	open, all := e.Events, make([]Event, 0, len(e.Sealing.Kinds))
	for _, k := range e.Sealing.Kinds {
		from := &closed
		if inTheClear(k) {
			from = &open
		}
		if cut && len(*from) == 0 {
			break
		}
		if len(*from) == 0 || KindOf((*from)[0]) != k {
			return fmt.Errorf("its kinds are not those of its events: no %s", k)
		}
		all, *from = append(all, (*from)[0]), (*from)[1:]
	}
	if !cut && len(open)+len(closed) > 0 {
		return errors.New("it has more events than kinds")
	}
	e.Events = all
	return nil
}
