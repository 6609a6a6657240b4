package tool

import (
	"encoding/json"
	"fmt"

	"github.com/turnlog/turnlog/content"
)

// Codes of tool failures, as the journal records them.
const (
	CodeNotFound         = "not_found"         // no tool of that name is offered
	CodeInvalidArguments = "invalid_arguments" // the input does not match the schema
	CodeFailed           = "failed"            // the tool returned an error
	CodeRetry            = "model_retry"       // the model should try again, with a hint
	CodeAuth             = "auth_required"     // credentials are missing
	CodeTimeout          = "timeout"           // the deadline passed
	CodePanic            = "panic"             // the tool panicked
	CodeDenied           = "permission_denied" // a policy or the tool forbids it
	CodeNeedsApproval    = "needs_approval"    // a person must decide first, and the host cannot ask
	CodeNoFile           = "no_such_file"      // there is nothing at the path
	CodeFileSystem       = "file_system"       // the operating system refuses
)

// Error is a failure with more than a text.
type Error struct {
	Code     string          // one of the codes above, or the tool's own
	Message  string          // for the model
	Auth     json.RawMessage // CodeAuth: the authorization needed
	Question *Verdict        // CodeNeedsApproval: the question

	Usage  content.Usage // of models that the tool called before it failed
	Counts Counts        // what sessions that worked for the call used

	Forbidden bool // a policy denied the call: its status is denied, not error
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Retry returns an error whose hint the model sees verbatim, so that it can call
// again with better arguments.
func Retry(hint string) error { return &Error{Code: CodeRetry, Message: hint} }

// Denied returns the error for something that the tool itself forbids, such as a
// path outside its root.
func Denied(format string, args ...any) error {
	return &Error{Code: CodeDenied, Message: fmt.Sprintf(format, args...)}
}

// Forbidden returns the error for a call that a policy denies where the tool runs.
// The result has status denied and the policy's code.
func Forbidden(code, message string) error {
	return &Error{Code: code, Message: message, Forbidden: true}
}

// NeedsApproval returns the error of a tool that finds, before it has done anything, that a person
// must decide first, for example about a path that can be resolved only where the tool runs. After
// the question is approved, the call is made again and [Call].Approved lists the question; the tool
// must check that list before it asks.
func NeedsApproval(v Verdict) error {
	return &Error{Code: CodeNeedsApproval, Message: "a person has to approve it: " + v.Summary, Question: &v}
}

// Failure returns an error with a stable code that the tool defines.
func Failure(code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

const notFoundPrefix = "Tool not found: "

// NotFound returns the error for a call of a tool that is not offered.
func NotFound(name string) error {
	return &Error{Code: CodeNotFound, Message: notFoundPrefix + name}
}

// AuthRequest describes the authorization that a tool needs. It contains no secrets.
type AuthRequest struct {
	ID        string          `json:"id"`
	Provider  string          `json:"provider"`
	Operation AuthOperation   `json:"operation"`
	Challenge json.RawMessage `json:"challenge,omitempty"`
}

// AuthOperation is the operation that failed because authorization is missing.
type AuthOperation struct {
	Kind   string `json:"kind"` // connect, tool_call, resource_read, prompt_get, other
	Server string `json:"server,omitempty"`
	Name   string `json:"name,omitempty"`
}

// AuthRequired returns the error for a call that needs credentials. They are provided
// out of band, and the next call uses them.
func AuthRequired(r AuthRequest) error {
	raw, _ := json.Marshal(r) // fails if the challenge is not JSON; then the result has no request
	return &Error{Code: CodeAuth, Message: fmt.Sprintf("Authorization required: %s: %s", r.Provider, r.Operation.Kind), Auth: raw}
}
