package content

import (
	"encoding/json"
	"strings"
)

// ToolCall is a model's request to run a tool.
type ToolCall struct {
	ID         CallID          `msgpack:"id" json:"id"`
	Place      Place           `msgpack:"pl,omitempty" json:"place,omitempty"`
	Name       string          `msgpack:"n" json:"name"`
	Input      json.RawMessage `msgpack:"in,omitempty" json:"input,omitempty"`
	ProviderID string          `msgpack:"pid,omitempty" json:"provider_id,omitempty"` // the id on the provider's wire
}

// Status says how a tool call ended.
type Status string

// The statuses of a result. Everything but StatusOK is an error to the model.
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

// IsError reports whether the model is told of an error.
func (s Status) IsError() bool { return s != StatusOK }

// Public folds s into the five statuses that people are shown: ok, error,
// denied, cancelled, unknown.
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

// ToolResult is what came of a tool call.
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

// Usage counts what model calls consumed. The zero value is nothing.
type Usage struct {
	InputTokens      int64  `msgpack:"i,omitempty" json:"input_tokens"`
	OutputTokens     int64  `msgpack:"o,omitempty" json:"output_tokens"`
	ReasoningTokens  int64  `msgpack:"r,omitempty" json:"reasoning_tokens,omitempty"`
	CacheReadTokens  int64  `msgpack:"cr,omitempty" json:"cache_read_tokens,omitempty"`
	CacheWriteTokens int64  `msgpack:"cw,omitempty" json:"cache_write_tokens,omitempty"`
	CostMicros       int64  `msgpack:"c,omitempty" json:"cost_micros,omitempty"` // millionths of the currency
	Currency         string `msgpack:"cu,omitempty" json:"currency,omitempty"`
}

// Add returns the sum of u and v. The currency is the first one that is set.
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

// TotalTokens is input plus output.
func (u Usage) TotalTokens() int64 { return u.InputTokens + u.OutputTokens }

// ErrorClass sorts the failures of model calls by what can be done about them.
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
	ClassExhausted  ErrorClass = "exhausted" // a script or cassette has no reply left
	ClassLost       ErrorClass = "lost"      // the host died during the call
	ClassOther      ErrorClass = "other"
)

// Retryable reports whether another attempt may succeed.
func (c ErrorClass) Retryable() bool {
	switch c {
	case ClassRateLimit, ClassOverloaded, ClassTimeout, ClassNetwork, ClassServer:
		return true
	case ClassAuth, ClassBilling, ClassInvalid, ClassTooLong, ClassBlocked, ClassExhausted, ClassLost, ClassOther:
		return false
	}
	return false
}

// ApprovalReason says why a call needs a person's decision.
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

// CacheRequest asks a provider to cache a prefix of the prompt. The zero value
// asks for nothing.
type CacheRequest struct {
	Mode        string       `msgpack:"m,omitempty" json:"mode,omitempty"`        // "", disabled, best_effort, required
	Retention   string       `msgpack:"r,omitempty" json:"retention,omitempty"`   // "", short, extended
	Key         string       `msgpack:"k,omitempty" json:"key,omitempty"`         // groups requests that share a prefix
	Breakpoints []Breakpoint `msgpack:"b,omitempty" json:"breakpoints,omitempty"` // none: the provider chooses
}

// Breakpoint marks where a cached prefix ends.
type Breakpoint struct {
	Kind string `msgpack:"k" json:"kind"` // tools_end, item_end, part_end
	Item int    `msgpack:"i,omitempty" json:"item,omitempty"`
	Part int    `msgpack:"p,omitempty" json:"part,omitempty"`
}

// Valid reports whether the request's words are known.
func (c CacheRequest) Valid() bool {
	switch c.Mode {
	case "", "disabled", "best_effort", "required":
	default:
		return false
	}
	switch c.Retention {
	case "", "short", "extended":
	default:
		return false
	}
	for _, b := range c.Breakpoints {
		switch b.Kind {
		case "tools_end", "item_end", "part_end":
		default:
			return false
		}
	}
	return true
}
