package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/turnlog/turnlog/tool"
)

// Codes of failures, in addition to those of package tool.
const (
	CodeUnavailable = "unavailable"          // the server is not connected, or the connection was lost during the call
	CodeElicitation = "elicitation_required" // a person must open a URL first
)

// Kinds of operations of an authorization request.
const (
	opConnect  = "connect"
	opToolCall = "tool_call"
	opResource = "resource_read"
	opPrompt   = "prompt_get"
)

const methodConnect = "initialize"

// operation is one request to a server.
type operation struct {
	kind   string // kind of an authorization request; with the prefix mcp. that of a permission request
	method string // method of the protocol
	about  string // the name of the tool or prompt, or the URI of the resource; "": a list
}

// authError is returned if a server demands authorization. It holds no secrets.
type authError struct {
	status     int
	challenges []oauthex.Challenge
	reason     string
}

// Error returns the reason, if there is one.
func (e *authError) Error() string {
	text := "authorization required"
	if e.reason != "" {
		text += ": " + e.reason
	}
	return text
}

// request returns the authorization request for the host.
func (e *authError) request(server string, op operation) tool.AuthRequest {
	r := tool.AuthRequest{
		ID: "mcp:" + server + ":" + op.method, Provider: server,
		Operation: tool.AuthOperation{Kind: op.kind, Server: server, Name: op.about},
	}
	challenge := struct {
		Status  int               `json:"status,omitempty"`
		Scheme  string            `json:"scheme,omitempty"`
		Params  map[string]string `json:"params,omitempty"`
		Problem string            `json:"problem,omitempty"`
	}{Status: e.status, Problem: e.reason}
	if len(e.challenges) > 0 {
		challenge.Scheme, challenge.Params = e.challenges[0].Scheme, e.challenges[0].Params
	}
	r.Challenge, _ = json.Marshal(challenge) // strings only
	return r
}

// unavailable returns the error of a call whose server is not connected.
func unavailable(server string, err error) error {
	if _, ok := errors.AsType[*authError](err); ok {
		return err
	}
	return tool.Failure(CodeUnavailable, "server %s is not available: %v", server, unwrapped(err))
}

// explain turns the error of an operation into one for the model.
func (l *link) explain(ctx context.Context, op operation, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*authError](err); ok {
		if l.current().state != Ready {
			op.kind, op.method = opConnect, methodConnect
		}
		return tool.AuthRequired(e.request(l.cfg.Name, op))
	}
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e
	}
	e, ok := serverError(err)
	switch {
	case !ok && errors.Is(err, errForbidden):
		return tool.Denied("server %s: %v", l.cfg.Name, errForbidden)
	case !ok:
		return unavailable(l.cfg.Name, err)
	}
	text := cmp.Or(e.Message, fmt.Sprintf("error %d", e.Code))
	switch e.Code {
	case jsonrpc.CodeInvalidParams, jsonrpc.CodeInvalidRequest, jsonrpc.CodeParseError:
		return tool.Failure(tool.CodeInvalidArguments, "%s", text)
	case sdk.CodeURLElicitationRequired:
		return tool.Failure(CodeElicitation, "server %s: a person must open %s first, then repeat the call", l.cfg.Name, urls(e))
	}
	return tool.Failure(tool.CodeFailed, "server %s: %s", l.cfg.Name, text)
}

// Codes of errors that come from the SDK, not from a server.
const (
	sdkClientClosing = -32003
	sdkServerClosing = -32004
	sdkRejected      = -32005
)

// serverError returns the error that a server answered with, if it did.
func serverError(err error) (*jsonrpc.Error, bool) {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e.Code == sdkClientClosing || e.Code == sdkServerClosing || e.Code == sdkRejected {
		return nil, false
	}
	return e, true
}

// urls lists what a person must open.
func urls(e *jsonrpc.Error) string {
	var data struct {
		Elicitations []struct {
			URL string `json:"url"`
		} `json:"elicitations"`
	}
	if json.Unmarshal(e.Data, &data) != nil || len(data.Elicitations) == 0 {
		return "a URL that it does not name"
	}
	var all []string
	for _, e := range data.Elicitations {
		all = append(all, e.URL)
	}
	return strings.Join(all, ", ")
}

// unwrapped removes what lower layers have added to an error, such as the URL, which may contain
// secrets.
func unwrapped(err error) error {
	if e, ok := errors.AsType[*authError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
