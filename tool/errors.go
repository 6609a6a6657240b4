package tool

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/content"
)

// Codes of tool failures, as recorded in the journal.
const (
	CodeNotFound         = "not_found"         // no such tool on offer
	CodeInvalidArguments = "invalid_arguments" // the input does not fit the schema
	CodeFailed           = "failed"            // the tool said no
	CodeRetry            = "model_retry"       // the model should try again, with a hint
	CodeAuth             = "auth_required"     // credentials are missing
	CodeTimeout          = "timeout"           // the deadline passed
	CodePanic            = "panic"             // the tool's code broke
	CodeDenied           = "permission_denied" // a policy or the tool itself forbids it
	CodeNeedsApproval    = "needs_approval"    // a person has to decide first, and nobody could be asked
	CodeNoFile           = "no_such_file"      // nothing has the path that the call names
	CodeFileSystem       = "file_system"       // the operating system does not do it
)

// Error is a failure that says more than its text.
type Error struct {
	Code    string          // one of the codes above, or the tool's own
	Message string          // for the model
	Auth    json.RawMessage // CodeAuth: the authorization that is needed
	Gate    *Verdict        // CodeNeedsApproval: what is asked for

	Usage  content.Usage // of models that the tool called until then
	Counts Counts        // of sessions that worked for it

	Forbidden bool // a policy denies the call, which then is not a failed one
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Retry returns an error whose hint the model gets word for word, so that it can
// call again with better arguments.
func Retry(hint string) error { return &Error{Code: CodeRetry, Message: hint} }

// Denied returns an error for what the tool itself forbids, such as a path
// outside its root.
func Denied(format string, args ...any) error {
	return &Error{Code: CodeDenied, Message: fmt.Sprintf(format, args...)}
}

// Forbidden returns the error of a call that a policy denies where the tool runs.
// Its result is a denial, with the policy's code.
func Forbidden(code, message string) error {
	return &Error{Code: code, Message: message, Forbidden: true}
}

// NeedsApproval returns the error of a tool that finds out, before it has done
// anything, that a person has to decide first: of a path, say, that only resolves
// where the tool runs. The call is made again once v's question is approved, which
// [Call].Approved then lists; a tool that does not look there asks in vain.
func NeedsApproval(v Verdict) error {
	return &Error{Code: CodeNeedsApproval, Message: "a person has to approve it: " + v.Summary, Gate: &v}
}

// Failure returns an error with a stable code of the tool's own.
func Failure(code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

const notFoundPrefix = "Tool not found: "

// NotFound returns the error for a call to a tool that is not on offer.
func NotFound(name string) error {
	return &Error{Code: CodeNotFound, Message: notFoundPrefix + name}
}

// AuthRequest says which authorization a tool needs. It holds no secrets.
type AuthRequest struct {
	ID        string          `json:"id"`
	Provider  string          `json:"provider"`
	Operation AuthOperation   `json:"operation"`
	Challenge json.RawMessage `json:"challenge,omitempty"`
}

// AuthOperation says what could not be done without authorization.
type AuthOperation struct {
	Kind   string `json:"kind"` // connect, tool_call, resource_read, prompt_get, other
	Server string `json:"server,omitempty"`
	Name   string `json:"name,omitempty"`
}

// AuthRequired returns the error for a call that needs credentials first. They
// are provided out of band; the next call uses them.
func AuthRequired(r AuthRequest) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return errors.Join(err, &Error{Code: CodeAuth, Message: "Authorization required: " + r.Provider})
	}
	return &Error{Code: CodeAuth, Message: fmt.Sprintf("Authorization required: %s: %s", r.Provider, r.Operation.Kind), Auth: raw}
}
