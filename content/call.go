package content

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// ToolCall is a model's request to run a tool.
type ToolCall struct {
	ID         CallID          `msgpack:"id" json:"id"`
	Place      Place           `msgpack:"pl,omitempty" json:"place,omitempty"`
	Name       string          `msgpack:"n" json:"name"`
	Input      json.RawMessage `msgpack:"in,omitempty" json:"input,omitempty"`
	ProviderID string          `msgpack:"pid,omitempty" json:"provider_id,omitempty"` // the id that the provider assigned
}

// Status is the outcome of a tool call.
type Status string

// The statuses of a result. All but StatusOK are errors for the model.
const (
	StatusOK          Status = "ok"
	StatusError       Status = "error"
	StatusDenied      Status = "denied"
	StatusExpired     Status = "expired"
	StatusSkipped     Status = "skipped"
	StatusCancelled   Status = "cancelled"
	StatusLimit       Status = "limit"
	StatusTerminated  Status = "terminated"
	StatusNotExecuted Status = "not_executed"
	StatusUnknown     Status = "unknown"
)

// IsError reports whether the model sees the result as an error.
func (s Status) IsError() bool { return s != StatusOK }

// Public returns the status to show to people: ok, error, denied, cancelled or
// unknown.
func (s Status) Public() string {
	switch s {
	case StatusOK:
		return "ok"
	case StatusError:
		return "error"
	case StatusDenied, StatusExpired, StatusSkipped:
		return "denied"
	case StatusCancelled, StatusLimit, StatusTerminated, StatusNotExecuted:
		return "cancelled"
	case StatusUnknown:
		return "unknown"
	}
	return "error"
}

// ToolResult is the result of a tool call.
type ToolResult struct {
	CallID   CallID   `msgpack:"id" json:"call_id"`
	Name     string   `msgpack:"n,omitempty" json:"name,omitempty"`
	Status   Status   `msgpack:"s" json:"status"`
	Output   []Part   `msgpack:"o,omitempty" json:"output,omitempty"`
	IsError  bool     `msgpack:"e,omitempty" json:"is_error,omitempty"`
	Code     string   `msgpack:"c,omitempty" json:"code,omitempty"` // stable code of a failure
	Metadata Metadata `msgpack:"md,omitempty" json:"metadata,omitempty"`
}

// NewResult returns a result with one text part.
func NewResult(id CallID, name string, s Status, text string) ToolResult {
	return ToolResult{CallID: id, Name: name, Status: s, Output: []Part{TextPart(text)}, IsError: s.IsError()}
}

// Text joins the text and structured parts of the output.
func (r ToolResult) Text() string {
	if len(r.Output) == 1 && r.Output[0].Kind == TextKind {
		return r.Output[0].Text
	}
	var b strings.Builder
	for _, p := range r.Output {
		switch p.Kind {
		case TextKind:
			b.WriteString(p.Text)
		case StructuredKind:
			b.Write(p.Data)
		case MediaKind, FileKind, ReasoningKind, ToolCallKind, ToolResultKind, CustomKind:
		}
	}
	return b.String()
}

// Usage is what model calls consumed.
type Usage struct {
	InputTokens      int64  `msgpack:"i,omitempty" json:"input_tokens"`
	OutputTokens     int64  `msgpack:"o,omitempty" json:"output_tokens"`
	ReasoningTokens  int64  `msgpack:"r,omitempty" json:"reasoning_tokens,omitempty"`
	CacheReadTokens  int64  `msgpack:"cr,omitempty" json:"cache_read_tokens,omitempty"`
	CacheWriteTokens int64  `msgpack:"cw,omitempty" json:"cache_write_tokens,omitempty"`
	CostMicros       int64  `msgpack:"c,omitempty" json:"cost_micros,omitempty"` // millionths of the currency
	Currency         string `msgpack:"cu,omitempty" json:"currency,omitempty"`
}

// Add returns u+v, with the first currency that is set.
func (u Usage) Add(v Usage) Usage {
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.ReasoningTokens += v.ReasoningTokens
	u.CacheReadTokens += v.CacheReadTokens
	u.CacheWriteTokens += v.CacheWriteTokens
	u.CostMicros += v.CostMicros
	if u.Currency == "" {
		u.Currency = v.Currency
	}
	return u
}

// TotalTokens returns input plus output tokens.
func (u Usage) TotalTokens() int64 { return u.InputTokens + u.OutputTokens }

// Cost returns the exact cost for people, with at least two decimals, as in "0.0042 EUR", or "" if it is not known. The
// currency is unchecked text from the process that recorded it.
func (u Usage) Cost() string {
	if u.CostMicros == 0 {
		return ""
	}
	const digits = 6
	text := strconv.FormatFloat(float64(u.CostMicros)/1e6, 'f', digits, 64)
	at := len(text) - digits + 2
	return strings.TrimSpace(text[:at] + strings.TrimRight(text[at:], "0") + " " + u.Currency)
}

// ErrorClass classifies failures of model calls by how to handle them.
type ErrorClass string

// The error classes. The first five may be retried.
const (
	ClassRateLimit  ErrorClass = "rate_limit"
	ClassOverloaded ErrorClass = "overloaded"
	ClassTimeout    ErrorClass = "timeout"
	ClassNetwork    ErrorClass = "network"
	ClassServer     ErrorClass = "server"
	ClassAuth       ErrorClass = "auth"
	ClassBilling    ErrorClass = "billing"
	ClassInvalid    ErrorClass = "invalid_request"
	ClassTooLong    ErrorClass = "context_too_long"
	ClassBlocked    ErrorClass = "blocked"
	ClassExhausted  ErrorClass = "exhausted" // a script or cassette has no more replies
	ClassLost       ErrorClass = "lost"      // the host was lost during the call
	ClassOther      ErrorClass = "other"
)

// Retryable reports whether another attempt may succeed.
func (c ErrorClass) Retryable() bool {
	return slices.Contains([]ErrorClass{ClassRateLimit, ClassOverloaded, ClassTimeout, ClassNetwork, ClassServer}, c)
}

// ApprovalReason is why a call needs a person's decision.
type ApprovalReason string

// The approval reasons.
const (
	PolicyRequiresConfirmation ApprovalReason = "policy_requires_confirmation"
	EscalatedRisk              ApprovalReason = "escalated_risk"
	UnknownTarget              ApprovalReason = "unknown_target"
	SensitivePath              ApprovalReason = "sensitive_path"
	SensitiveCommand           ApprovalReason = "sensitive_command"
	SensitiveServer            ApprovalReason = "sensitive_server"
	SensitiveAuthScope         ApprovalReason = "sensitive_auth_scope"
)

// QuestionKey identifies a question about a call. An approval answers exactly that question: no
// other kind, and nothing outside its scope, if it has one.
type QuestionKey struct {
	Kind  string `msgpack:"k" json:"request_kind"`
	Scope string `msgpack:"s,omitempty" json:"scope,omitempty"` // for example a program or a path; empty: any call
}

// CacheRequest asks a provider to cache a prefix of the prompt. The zero value is no
// request.
type CacheRequest struct {
	Mode        string       `msgpack:"m,omitempty" json:"mode,omitempty"`        // "", disabled, best_effort, required
	Retention   string       `msgpack:"r,omitempty" json:"retention,omitempty"`   // "", short, extended
	Key         string       `msgpack:"k,omitempty" json:"key,omitempty"`         // groups requests that share a prefix
	Breakpoints []Breakpoint `msgpack:"b,omitempty" json:"breakpoints,omitempty"` // none: the provider chooses
}

// Breakpoint is the end of a cached prefix.
type Breakpoint struct {
	Kind string `msgpack:"k" json:"kind"` // tools_end, item_end, part_end
	Item int    `msgpack:"i,omitempty" json:"item,omitempty"`
	Part int    `msgpack:"p,omitempty" json:"part,omitempty"`
}

// Valid reports whether all values of the request are known.
func (c CacheRequest) Valid() bool {
	known := func(s string, values ...string) bool { return slices.Contains(values, s) }
	for _, b := range c.Breakpoints {
		if !known(b.Kind, "tools_end", "item_end", "part_end") {
			return false
		}
	}
	return known(c.Mode, "", "disabled", "best_effort", "required") && known(c.Retention, "", "short", "extended")
}
