// Package model defines a model: a function from a request to a stream of deltas and
// one final reply.
//
// A [Model] makes exactly one attempt per call. It never retries, because the caller
// counts, records and bills attempts. It keeps no state of the session: the request
// contains the whole transcript. The class of an [*Error] says how to handle a failure.
//
// Test an adapter with package modeltest. Use model/scripted as a test double.
package model

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// Model answers requests. Implementations are safe for concurrent use.
type Model interface {
	// Name returns provider:model, as on a command line.
	Name() string
	// Capabilities returns what requests may ask for.
	Capabilities() Capabilities
	// Call makes one attempt. It passes deltas to emit as they arrive, from the
	// calling goroutine. emit is not nil and does not block for long. The returned
	// error is an *Error or wraps the cause of ctx.
	Call(ctx context.Context, r Request, emit func(content.Delta)) (Reply, error)
}

// Capabilities are the features of a model.
type Capabilities struct {
	Tools         bool `json:"tools,omitempty"`
	Parallel      bool `json:"parallel,omitempty"` // several calls in one reply
	Reasoning     bool `json:"reasoning,omitempty"`
	Media         bool `json:"media,omitempty"`
	OutputSchema  bool `json:"output_schema,omitempty"`
	PromptCache   bool `json:"prompt_cache,omitempty"`
	ContextTokens int  `json:"context_tokens,omitempty"` // size of the context window; zero: unknown
}

// Request is the input of one attempt.
type Request struct {
	Session    content.SessionID
	Turn       content.TurnID
	Round      int
	Attempt    int // 1, 2, …
	Transcript []content.Item
	Tools      []tool.Spec // in a deterministic order; shared by requests, so not to be changed
	Cache      *content.CacheRequest
	Metadata   content.Metadata
	Schema     json.RawMessage // JSON Schema of the answer; empty: free text
}

// Reply is a complete reply.
type Reply struct {
	Items        []content.Item       `json:"items,omitempty"` // Assistant items; tool calls have the provider's id
	Usage        content.Usage        `json:"usage"`
	FinishReason content.FinishReason `json:"finish_reason,omitempty"` // empty: tool_call if there are calls, otherwise completed
	Model        string               `json:"model,omitempty"`
	ResponseID   string               `json:"response_id,omitempty"`
}

// CacheRequest asks a provider to cache a prefix of the prompt.
type CacheRequest = content.CacheRequest

// ErrorClass classifies failures by how to handle them.
type ErrorClass = content.ErrorClass

// ErrorClasses returns all classes.
func ErrorClasses() []ErrorClass {
	return []ErrorClass{
		content.ClassRateLimit, content.ClassOverloaded, content.ClassTimeout, content.ClassNetwork, content.ClassServer,
		content.ClassAuth, content.ClassBilling, content.ClassInvalid, content.ClassTooLong, content.ClassBlocked,
		content.ClassExhausted, content.ClassLost, content.ClassOther,
	}
}

// FinishReasons returns the finish reasons that replies may have. Turns have others.
func FinishReasons() []content.FinishReason {
	return []content.FinishReason{
		content.Completed, content.ToolCalls, content.MaxTokens, content.Blocked, content.Compaction, content.Other,
	}
}

// Error is a failed attempt.
type Error struct {
	Class      ErrorClass    `json:"class"`
	Code       string        `json:"code,omitempty"` // of the provider
	Message    string        `json:"message"`        // for people; never a secret
	RetryAfter time.Duration `json:"retry_after_ns,omitempty"`
	Usage      content.Usage `json:"usage"` // billed despite the failure
}

// Error returns the class, code and message.
func (e *Error) Error() string {
	if e.Code != "" {
		return fmt.Sprintf("%s (%s): %s", e.Class, e.Code, e.Message)
	}
	return fmt.Sprintf("%s: %s", e.Class, e.Message)
}
