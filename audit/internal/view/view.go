// Package view shows entries as lines of JSON, and says where a line differs from its entry.
//
// A line is not simply parsed and trusted. Its payload is decoded and shown again, and both lines must be
// equal. Only if their bytes differ are they parsed, strictly: each key once, in its exact case, and no
// other keys.
package view

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/jsontext"
)

const (
	keyPayload   = "payload"   // the last key of a line in an export
	keySignature = "signature" // of the driver; the payload does not have it

	markPayload   = `,"` + keyPayload + `":"`
	markSignature = `,"` + keySignature + `":"`
)

// Append appends a record as one line of an export, without the newline. The payload is the record; the
// other fields are a view of it. For a sealed entry, the view has only the parts that are not sealed, even if
// the key is available: erased content must not stay in exports.
func Append(b []byte, r journal.Record) ([]byte, error) {
	if r.Entry.Sealing != nil {
		r.Entry, r.Err = events.Decode(r.Payload)
	}
	b, err := AppendRest(AppendHead(b, &r), &r)
	return AppendPayload(b, r.Payload), err
}

// AppendPayload ends a line.
func AppendPayload(b, payload []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(b, payload), `"}`...)
}

// AppendShown appends a record for programs that follow journals: with its cursors and its position in the
// store, and with its payload only if this release cannot decode it.
func AppendShown(b []byte, r journal.Record) ([]byte, error) {
	b = appendSignature(AppendHead(b, &r), r.Signature)
	var err error
	if len(r.Entry.Cursors) > 0 {
		b, err = jsontext.Append(append(b, `,"cursors":`...), r.Entry.Cursors)
	}
	if err == nil && r.Guard > 0 {
		b = strconv.AppendUint(append(b, `,"position":`...), r.Guard, 10)
	}
	if err == nil {
		b, err = appendEvents(b, &r)
	}
	if r.Err != nil && len(r.Payload) > 0 {
		b = append(b, markPayload...)
		b = base64.StdEncoding.AppendEncode(b, r.Payload)
		b = append(b, '"')
	}
	return append(b, '}'), err
}

// AppendHead begins a line, up to the signature.
func AppendHead(b []byte, r *journal.Record) []byte {
	e := &r.Entry
	b = strconv.AppendUint(append(b, `{"seq":`...), r.Seq, 10)
	b = jsontext.String(append(b, `,"session":`...), string(e.Session))
	b = hex.AppendEncode(append(b, `,"prev":"`...), e.Prev[:])
	b = hex.AppendEncode(append(b, `","hash":"`...), r.Hash[:])
	b = e.At.AppendJSON(append(b, `","at":`...))
	b = strconv.AppendUint(append(b, `,"epoch":`...), e.Epoch, 10)
	return jsontext.String(append(b, `,"cause":`...), e.Cause)
}

// AppendRest continues a line after its head, up to the text of the payload. The entry was decoded without a key.
func AppendRest(b []byte, r *journal.Record) ([]byte, error) {
	b, err := appendEvents(appendSignature(b, r.Signature), r)
	return append(b, markPayload...), err
}

func appendSignature(b []byte, s content.Signature) []byte {
	if s.IsZero() {
		return b
	}
	return append(s.Append(append(b, markSignature...)), '"') // the text has no characters that JSON escapes
}

// appendEvents appends the kinds and the events, or why they are missing.
func appendEvents(b []byte, r *journal.Record) ([]byte, error) {
	var few [16]events.Kind
	evs, kinds := r.Entry.Events, r.Entry.AppendKinds(few[:0])
	_, sealed := errors.AsType[*events.SealedError](r.Err)
	if r.Err != nil && !sealed {
		evs, kinds = nil, nil
	}
	b = append(b, `,"kinds":[`...)
	for i, k := range kinds {
		b = jsontext.String(comma(b, i), string(k))
	}
	b = append(b, ']')
	if s := r.Entry.Sealing; s != nil {
		b = jsontext.String(append(b, `,"sealed":`...), s.ID.String())
	}
	b = append(b, `,"events":[`...)
	for i, ev := range evs {
		var err error
		if b, err = events.AppendEvent(comma(b, i), ev); err != nil {
			return b, fmt.Errorf("show %s/%d: %w", r.Entry.Session, r.Seq, err)
		}
	}
	b = append(b, ']')
	if r.Err != nil && !sealed {
		b = jsontext.String(append(b, `,"unread":`...), r.Err.Error())
	}
	return b, nil
}

func comma(b []byte, i int) []byte {
	if i == 0 {
		return b
	}
	return append(b, ',')
}
