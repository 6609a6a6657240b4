package jetstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrNoJetStream is returned when nobody on the connection's account answers for
// JetStream. Enable it on the server, or connect to one that has it.
var ErrNoJetStream = errors.New("JetStream is not enabled")

// ErrFull is returned when a server, or the account, has no room left for what is to be
// written. Nothing was. Give JetStream more, or remove something, and try again.
var ErrFull = errors.New("JetStream has no room left")

// ErrNotProvisioned is returned when a stream or bucket of the cell is missing.
// Provision the cell, or correct the namespace.
var ErrNotProvisioned = errors.New("cell is not provisioned")

// ErrBlobMissing is returned for a message whose payload should be in the object
// store and is not, or is not what it was. The message cannot be used.
var ErrBlobMissing = errors.New("blob is missing or damaged")

// ErrTooLarge is returned by Send for an ask that no session takes: store what is large
// in Blobs, or where tools find it, and send its name.
var ErrTooLarge = errors.New("command is too large")

// MismatchError is returned by Provision for a stream or a consumer that has the
// cell's name and other settings. Nothing was changed. Change what is named, or
// take another namespace.
type MismatchError struct {
	Differences []Difference
}

// OverlapError is returned by Provision when another stream has a subject of the
// cell. Nothing was created. Delete that stream, or take another namespace.
type OverlapError struct {
	Stream  string // the cell's, which cannot be created
	Subject string // of it
	Other   string // the stream that has it
}

// Error names both streams.
func (e *OverlapError) Error() string {
	return fmt.Sprintf("stream %s cannot be created: its subject %s is one of stream %s", e.Stream, e.Subject, e.Other)
}

// Difference is one setting that is not as the cell needs it.
type Difference struct {
	Object  string // the stream, or stream and consumer
	Setting string
	Have    string
	Want    string
}

// Error lists the differences, one a line.
func (e *MismatchError) Error() string {
	var b strings.Builder
	b.WriteString("streams with the cell's names have other settings")
	for _, d := range e.Differences {
		fmt.Fprintf(&b, "\n%s: %s is %s, must be %s", d.Object, d.Setting, d.Have, d.Want)
	}
	return b.String()
}

// errNoMessage says that a subject holds no message, or none from a sequence on.
var errNoMessage = errors.New("no message")

// Codes that nats.go has no name for.
const (
	codeAccountFull         jetstream.ErrorCode = 10002
	codeNoPeers             jetstream.ErrorCode = 10005
	codeClusterNotAvailable jetstream.ErrorCode = 10008
	codeClusterNotLeader    jetstream.ErrorCode = 10009
	codeServerFull          jetstream.ErrorCode = 10023
	codeSubjectOverlap      jetstream.ErrorCode = 10065
	codeStoreFailed         jetstream.ErrorCode = 10077
	codeGuardNotReady       jetstream.ErrorCode = 10163
	codeBadSchedule         jetstream.ErrorCode = 10189
	codeBadTimeZone         jetstream.ErrorCode = 10223
)

// The server reports every failure of its store under one code; only the text
// tells a full subject from a full disk.
const textSubjectFull = "maximum messages per subject exceeded"

// apiError returns the server's answer inside err, or nil if there is none.
func apiError(err error) *jetstream.APIError {
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		return e
	}
	if e, ok := errors.AsType[jetstream.JetStreamError](err); ok {
		return e.APIError()
	}
	return nil
}

func hasCode(err error, codes ...jetstream.ErrorCode) bool {
	e := apiError(err)
	return e != nil && slices.Contains(codes, e.ErrorCode)
}

// isConflict reports that a guarded write found another last sequence. The server
// has two codes for it; the second one says that a write is in flight.
func isConflict(err error) bool {
	return hasCode(err, jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// isBadSchedule reports that the server does not understand when a message is due, or
// does not know the time zone.
func isBadSchedule(err error) bool { return hasCode(err, codeBadSchedule, codeBadTimeZone) }

// isAlreadyThere reports that a subject which holds one message holds it already.
func isAlreadyThere(err error) bool {
	e := apiError(err)
	return e != nil && e.ErrorCode == codeStoreFailed && e.Description == textSubjectFull
}

// isNotFound reports that there is no such message.
func isNotFound(err error) bool {
	return errors.Is(err, errNoMessage) || hasCode(err, jetstream.JSErrCodeMessageNotFound)
}

// isFull reports that a limit of a server or of the account is reached. Servers look
// before they do anything about a message.
func isFull(err error) bool { return hasCode(err, codeServerFull, codeAccountFull) }

// isNoStream reports that there is no such stream.
func isNoStream(err error) bool { return hasCode(err, jetstream.JSErrCodeStreamNotFound) }

// isNoConsumer reports that there is no such consumer.
func isNoConsumer(err error) bool {
	return hasCode(err, jetstream.JSErrCodeConsumerNotFound, jetstream.JSErrCodeConsumerDoesNotExist)
}

// isNameInUse reports that a stream or a consumer of that name has other settings.
func isNameInUse(err error) bool {
	return hasCode(err, jetstream.JSErrCodeStreamNameInUse, jetstream.JSErrCodeConsumerAlreadyExists,
		jetstream.JSErrCodeConsumerNameExists, jetstream.JSErrCodeConsumerExists)
}

// isOverlap reports that another stream has one of the subjects.
func isOverlap(err error) bool { return hasCode(err, codeSubjectOverlap) }

// isNoJetStream reports that the server or the account has no JetStream.
func isNoJetStream(err error) bool {
	return errors.Is(err, ErrNoJetStream) ||
		hasCode(err, jetstream.JSErrCodeJetStreamNotEnabled, jetstream.JSErrCodeJetStreamNotEnabledForAccount)
}

// isNoResponders reports that no server took the request: nothing came of it.
func isNoResponders(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse)
}

// isTimeout reports that no answer came in time.
func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
}

// isClosed reports that the connection is gone for good.
func isClosed(err error) bool { return errors.Is(err, nats.ErrConnectionClosed) }

// isTransient reports that the same request may succeed a little later: a leader
// is being elected, or the connection is being made again.
func isTransient(err error) bool {
	if isClosed(err) || isNoJetStream(err) || errors.Is(err, context.Canceled) {
		return false
	}
	if e := apiError(err); e != nil {
		return hasCode(err, codeClusterNotAvailable, codeClusterNotLeader, codeGuardNotReady) ||
			hasCode(err, codeNoPeers) && strings.Contains(e.Description, "peer offline")
	}
	return isNoResponders(err) || isTimeout(err) || errors.Is(err, nats.ErrDisconnected) ||
		errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionReconnecting) ||
		errors.Is(err, errTorn)
}

// isUnknown reports of a publish whether it cannot be told what came of it. Only
// an answer that says no, or the word that nobody took it, is certain.
func isUnknown(err error) bool {
	if err == nil || isNoResponders(err) || neverSent(err) {
		return false
	}
	if e := apiError(err); e != nil {
		return e.Code >= 500 && !isAlreadyThere(err) && !isFull(err) && !hasCode(err, codeGuardNotReady)
	}
	return true
}

// neverSent reports that the client refused to put the message on the wire, or the
// server to take it from there.
func neverSent(err error) bool {
	if d, denied := Denied(err); denied {
		return !d.Hearing
	}
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject) ||
		errors.Is(err, nats.ErrHeadersNotSupported) || errors.Is(err, nats.ErrReconnectBufExceeded)
}

// pubAck is the server's answer to a publish.
type pubAck struct {
	Stream    string              `json:"stream"`
	Seq       uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Err       *jetstream.APIError `json:"error"`
}

// ackSeq takes the usual acknowledgement apart by hand, {"stream":"S","seq":7},
// since appends are the hot path. Everything else is left to the JSON decoder.
func ackSeq(data []byte) (uint64, bool) {
	before, digits, ok := bytes.Cut(data, []byte(`,"seq":`))
	if !ok || !bytes.HasPrefix(before, []byte(`{"stream":"`)) || bytes.LastIndexByte(before, '{') != 0 {
		return 0, false // no acknowledgement, or one with an error inside
	}
	if len(digits) < 2 || len(digits) > 20 || digits[len(digits)-1] != '}' {
		return 0, false
	}
	var seq uint64
	for _, c := range digits[:len(digits)-1] {
		if c < '0' || c > '9' {
			return 0, false
		}
		seq = seq*10 + uint64(c-'0')
	}
	return seq, seq > 0
}

// parseAck reads the answer to a publish.
func parseAck(msg *nats.Msg) (uint64, error) {
	if seq, ok := ackSeq(msg.Data); ok {
		return seq, nil
	}
	if len(msg.Data) == 0 && msg.Header.Get("Status") == "503" {
		return 0, nats.ErrNoResponders
	}
	var ack pubAck
	if err := json.Unmarshal(msg.Data, &ack); err != nil {
		return 0, fmt.Errorf("answer to a publish: %w", err)
	}
	if ack.Err != nil {
		return 0, ack.Err
	}
	if ack.Stream == "" || ack.Seq == 0 {
		return 0, fmt.Errorf("answer to a publish is no acknowledgement: %.60q", msg.Data)
	}
	return ack.Seq, nil
}
