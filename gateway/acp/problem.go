package acp

import (
	"cmp"
	"context"
	"errors"
	"strconv"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/turnlog/turnlog/session"
)

// Codes of errors, of JSON-RPC and of the protocol.
const (
	codeParse     = -32700
	codeRequest   = -32600
	codeMethod    = -32601
	codeParams    = -32602
	codeInternal  = -32603
	codeMissing   = -32002
	codeCancelled = -32800
)

func noSession(id, because string) error {
	because = cmp.Or(because, "session/list lists the sessions of a folder")
	return &sdk.RequestError{Code: codeMissing, Message: "there is no session " + strconv.Quote(id) + " here: " + because}
}

// problem returns an error for an editor. Its message says everything, since editors show nothing else.
func problem(err error) *sdk.RequestError {
	if e, ok := errors.AsType[*sdk.RequestError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*session.InvalidStateError](err); ok {
		return &sdk.RequestError{Code: codeParams, Message: e.Error()}
	}
	switch {
	case errors.Is(err, session.ErrNoAnswer):
		return &sdk.RequestError{Code: codeInternal, Message: err.Error() + ": start a driver-node; the command waits in the inbox"}
	case errors.Is(err, context.Canceled), errors.Is(err, errGone), errors.Is(err, errClosed):
		return &sdk.RequestError{Code: codeCancelled, Message: err.Error()}
	}
	return &sdk.RequestError{Code: codeInternal, Message: err.Error()}
}
