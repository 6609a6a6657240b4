// Package model says what a model is: a function from a request to a stream of
// deltas and one final reply.
//
// A [Model] makes exactly one attempt per call: it never retries, because the
// caller counts, records and bills attempts. It owns nothing of the session; the
// whole transcript is in the request. Failures are [*Error] values whose class
// says what can be done about them.
//
// To test an adapter, run it through package modeltest; model/scripted is the
// test double.
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
	// Name is provider:model, as given on a command line.
	Name() string
	// Capabilities says what requests may ask for.
	Capabilities() Capabilities
	// Call makes one attempt. Deltas are handed to emit as they come, one at a
	// time, from the calling goroutine; emit is never nil and never blocks for
	// long. The returned error is an *Error, or wraps the cause of ctx.
	Call(ctx context.Context, r Request, emit func(content.Delta)) (Reply, error)
}

// Capabilities says what a model can do.
type Capabilities struct {
	Tools         bool
	Parallel      bool // several calls in one reply
	Reasoning     bool
	Media         bool
	OutputSchema  bool
	PromptCache   bool
	ContextTokens int // size of the context window; zero: not known
}

// Request is everything that a model gets.
type Request struct {
	Session    content.SessionID
	Turn       content.TurnID
	Round      int
	Attempt    int // 1, 2, …
	Transcript []content.Item
	Tools      []tool.Spec // in a deterministic order
	Cache      *content.CacheRequest
	Metadata   content.Metadata
	Schema     json.RawMessage // JSON Schema of the final answer; empty: free text
}

// Reply is a whole answer.
type Reply struct {
	Items        []content.Item // Assistant items; tool calls carry the provider's id
	Usage        content.Usage
	FinishReason content.FinishReason // empty: tool_call if there are calls, else completed
	Model        string
	ResponseID   string
}

// CacheRequest asks a provider to cache a prefix of the prompt.
type CacheRequest = content.CacheRequest

// ErrorClass sorts failures by what can be done about them.
type ErrorClass = content.ErrorClass

// Error is a failed attempt.
type Error struct {
	Class      ErrorClass
	Code       string // the provider's
	Message    string // for people; never a secret
	RetryAfter time.Duration
	Usage      content.Usage // what the provider billed all the same
}

// Error renders class and message.
func (e *Error) Error() string {
	if e.Code != "" {
		return fmt.Sprintf("%s (%s): %s", e.Class, e.Code, e.Message)
	}
	return fmt.Sprintf("%s: %s", e.Class, e.Message)
}
