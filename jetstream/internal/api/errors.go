package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Errors that package jetstream exports and documents.
var (
	ErrNoJetStream    = errors.New("JetStream is not enabled")
	ErrFull           = errors.New("JetStream storage is full")
	ErrNotProvisioned = errors.New("cell is not provisioned")
)

// ErrNoMessage is returned when a subject has no message, or none at or after a sequence.
var ErrNoMessage = errors.New("no message")

// Codes that nats.go does not name.
const (
	codeAccountFull         jetstream.ErrorCode = 10002
	codeNoPeers             jetstream.ErrorCode = 10005
	codeClusterNotAvailable jetstream.ErrorCode = 10008
	codeClusterNotLeader    jetstream.ErrorCode = 10009
	codeServerFull          jetstream.ErrorCode = 10023
	codeSequenceNotFound    jetstream.ErrorCode = 10043
	codeDeleteFailed        jetstream.ErrorCode = 10057
	codeStoreFailed         jetstream.ErrorCode = 10077
	codeGuardNotReady       jetstream.ErrorCode = 10163
	codeBadSchedule         jetstream.ErrorCode = 10189
	codeBadTimeZone         jetstream.ErrorCode = 10223
)

// The server reports every failure of its store with one code. Only the text distinguishes a full subject
// from a full disk.
const (
	textSubjectFull  = "maximum messages per subject exceeded"
	textMessagesFull = "maximum messages exceeded"
	textBytesFull    = "maximum bytes exceeded"
)

// The same applies to failures to restore a stream.
const textOneServer = "replicas > 1 not supported in non-clustered mode"

// The same applies to failures to delete.
const textNoMessage = "no message found"

// apiError returns the server's answer inside err, or nil.
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

// IsConflict reports whether a guarded write found another last sequence. The server has two codes for
// this; the second one means that a write is in flight.
func IsConflict(err error) bool {
	return hasCode(err, jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// IsBadSchedule reports whether the server rejected the time or the time zone of a schedule.
func IsBadSchedule(err error) bool { return hasCode(err, codeBadSchedule, codeBadTimeZone) }

// IsAlreadyThere reports whether a subject that may hold one message already has it.
func IsAlreadyThere(err error) bool {
	e := apiError(err)
	return e != nil && e.ErrorCode == codeStoreFailed && e.Description == textSubjectFull
}

// IsNotFound reports whether there is no such message.
func IsNotFound(err error) bool {
	return errors.Is(err, ErrNoMessage) || hasCode(err, jetstream.JSErrCodeMessageNotFound)
}

// IsFull reports whether a limit of a server, the account or the stream is reached. Servers check limits
// before they store a message.
func IsFull(err error) bool {
	if hasCode(err, codeStoreFailed) {
		text := apiError(err).Description
		return text == textMessagesFull || text == textBytesFull
	}
	return hasCode(err, codeServerFull, codeAccountFull)
}

// isGone reports whether a message that was to be deleted is missing. The server has several codes for
// this.
func isGone(err error) bool {
	return IsNotFound(err) || hasCode(err, codeSequenceNotFound) ||
		hasCode(err, codeDeleteFailed) && apiError(err).Description == textNoMessage
}

// IsNoStream reports whether there is no such stream.
func IsNoStream(err error) bool { return hasCode(err, jetstream.JSErrCodeStreamNotFound) }

// IsNoConsumer reports whether there is no such consumer.
func IsNoConsumer(err error) bool {
	return hasCode(err, jetstream.JSErrCodeConsumerNotFound, jetstream.JSErrCodeConsumerDoesNotExist)
}

// IsNameInUse reports whether a stream or consumer with that name has other settings.
func IsNameInUse(err error) bool {
	return hasCode(err, jetstream.JSErrCodeStreamNameInUse, jetstream.JSErrCodeConsumerAlreadyExists,
		jetstream.JSErrCodeConsumerNameExists, jetstream.JSErrCodeConsumerExists)
}

// IsNoJetStream reports whether the server or the account has no JetStream.
func IsNoJetStream(err error) bool {
	return errors.Is(err, ErrNoJetStream) ||
		hasCode(err, jetstream.JSErrCodeJetStreamNotEnabled, jetstream.JSErrCodeJetStreamNotEnabledForAccount)
}

// IsTooFewServers reports whether a stream has more replicas than there are servers for them.
func IsTooFewServers(err error) bool {
	e := apiError(err)
	return e != nil && (e.ErrorCode == codeNoPeers && !IsTransient(err) || strings.Contains(e.Description, textOneServer))
}

// IsNoResponders reports whether no server received the request, which then had no effect.
func IsNoResponders(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse)
}

// IsTransient reports whether the same request may succeed soon: a leader is being elected, or the
// connection is being re-established.
func IsTransient(err error) bool {
	if errors.Is(err, nats.ErrConnectionClosed) || IsNoJetStream(err) || errors.Is(err, context.Canceled) {
		return false
	}
	if e := apiError(err); e != nil {
		return hasCode(err, codeClusterNotAvailable, codeClusterNotLeader, codeGuardNotReady) ||
			hasCode(err, codeNoPeers) && strings.Contains(e.Description, "peer offline")
	}
	return IsNoResponders(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, nats.ErrDisconnected) || errors.Is(err, nats.ErrReconnectBufExceeded) ||
		errors.Is(err, nats.ErrConnectionReconnecting) || errors.Is(err, errTorn)
}

// IsUnknown reports whether the outcome of a publish is unknown. Only a negative answer, or no responders,
// is a certain failure.
func IsUnknown(err error) bool {
	if err == nil || IsNoResponders(err) || neverSent(err) {
		return false
	}
	if e := apiError(err); e != nil {
		return e.Code >= 500 && !IsAlreadyThere(err) && !IsFull(err) && !hasCode(err, codeGuardNotReady)
	}
	return true
}

// neverSent reports whether the client did not send the message, or the server did not accept it.
func neverSent(err error) bool {
	if d, denied := Denied(err); denied {
		return !d.Hearing
	}
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject) ||
		errors.Is(err, nats.ErrHeadersNotSupported) || errors.Is(err, nats.ErrReconnectBufExceeded)
}

// Explain wraps the error of a failed request to a stream with what it means for the cell.
func (c *Conn) Explain(ctx context.Context, stream string, err error) error {
	if IsNoResponders(err) {
		// Nothing serves the stream, or nothing serves the API. A request to the API shows which.
		_, infoErr := c.Ask(ctx, StreamInfo+stream, nil)
		if IsNoResponders(infoErr) {
			return fmt.Errorf("%w: %w", ErrNoJetStream, infoErr)
		}
		if apiError(infoErr) != nil {
			err = infoErr
		}
	}
	switch {
	case IsNoStream(err):
		return fmt.Errorf("%w: stream %s is missing: %w", ErrNotProvisioned, stream, err)
	case IsNoJetStream(err):
		return fmt.Errorf("%w: %w", ErrNoJetStream, err)
	case IsFull(err), IsAlreadyThere(err):
		return fmt.Errorf("stream %s: %w: %w", stream, ErrFull, err)
	}
	return fmt.Errorf("stream %s: %w", stream, err)
}
