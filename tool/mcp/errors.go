package mcp

import (
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

// Codes of failures, beside those of package tool.
const (
	CodeUnavailable = "unavailable"          // the server is not there, or the connection was lost in the middle
	CodeElicitation = "elicitation_required" // a person has to open an address first
)

// Kinds of operations of an authorization request.
const (
	opConnect  = "connect"
	opToolCall = "tool_call"
	opResource = "resource_read"
	opPrompt   = "prompt_get"
)

// operation is one thing that is asked of a server.
type operation struct {
	kind   string // of an authorization request, and behind mcp. of a permission request
	method string // of the protocol
	name   string // of the tool or the prompt, or the address of the resource; "": a list of all
}

// authError is a server's want of authorization. It holds no secrets.
type authError struct {
	status     int
	challenges []oauthex.Challenge
	reason     string
}

// Error says what is known.
func (e *authError) Error() string {
	text := "authorization required"
	if e.reason != "" {
		text += ": " + e.reason
	}
	return text
}

// request is what a person, or whoever has credentials, is asked for.
func (e *authError) request(server, kind, name string) tool.AuthRequest {
	methods := map[string]string{opConnect: "initialize", opToolCall: "tools/call", opResource: "resources/read", opPrompt: "prompts/get"}
	r := tool.AuthRequest{
		ID: "mcp:" + server + ":" + methods[kind], Provider: server,
		Operation: tool.AuthOperation{Kind: kind, Server: server, Name: name},
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
	r.Challenge, _ = json.Marshal(challenge) // it is of strings
	return r
}

// unavailable is the error of a call whose server is not there.
func unavailable(server string, err error) error {
	if _, ok := errors.AsType[*authError](err); ok {
		return err
	}
	return tool.Failure(CodeUnavailable, "server %s is not available: %v", server, plainly(err))
}

// explain makes what went wrong with an operation an error that a model understands.
func (l *link) explain(ctx context.Context, op operation, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*authError](err); ok {
		kind := op.kind
		if l.snapshot().state != Ready {
			kind = opConnect
		}
		return tool.AuthRequired(e.request(l.cfg.Name, kind, op.name))
	}
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e
	}
	e, ok := answered(err)
	switch {
	case !ok && errors.Is(err, errForbidden):
		return tool.Denied("server %s: %v", l.cfg.Name, errForbidden)
	case !ok:
		return unavailable(l.cfg.Name, err)
	}
	switch e.Code {
	case jsonrpc.CodeInvalidParams, jsonrpc.CodeInvalidRequest, jsonrpc.CodeParseError:
		return tool.Failure(tool.CodeInvalidArguments, "%s", message(e))
	case sdk.CodeURLElicitationRequired:
		return tool.Failure(CodeElicitation, "server %s wants a person to open %s first, and then the call again", l.cfg.Name, addresses(e))
	}
	return tool.Failure(tool.CodeFailed, "server %s: %s", l.cfg.Name, message(e))
}

// Codes of errors that the SDK makes itself, where a server was not heard.
const (
	sdkClientClosing = -32003
	sdkServerClosing = -32004
	sdkRejected      = -32005
)

// answered is the error that a server answered with, if it did.
func answered(err error) (*jsonrpc.Error, bool) {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e.Code == sdkClientClosing || e.Code == sdkServerClosing || e.Code == sdkRejected {
		return nil, false
	}
	return e, true
}

func message(e *jsonrpc.Error) string {
	if e.Message == "" {
		return fmt.Sprintf("error %d", e.Code)
	}
	return e.Message
}

// addresses lists what a person has to open.
func addresses(e *jsonrpc.Error) string {
	var data struct {
		Elicitations []struct {
			URL string `json:"url"`
		} `json:"elicitations"`
	}
	if json.Unmarshal(e.Data, &data) != nil || len(data.Elicitations) == 0 {
		return "an address that it does not name"
	}
	var urls []string
	for _, e := range data.Elicitations {
		urls = append(urls, e.URL)
	}
	return strings.Join(urls, ", ")
}

// plainly strips an error of what the layers below added: the address of the server,
// which may hold secrets, among it.
func plainly(err error) error {
	if e, ok := errors.AsType[*authError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
