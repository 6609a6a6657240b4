package tool

import (
	"context"
	"encoding/json"
	"time"

	"github.com/turnlog/turnlog/content"
)

// Tool is something that a model can call. Implementations are safe for
// concurrent use unless their Spec says Exclusive.
type Tool interface {
	// Spec describes the tool. It returns at once and may be called at any time.
	Spec() Spec
	// Call runs the tool and returns promptly when ctx ends. An error becomes an
	// error result for the model; see Retry, AuthRequired and Failure for errors
	// that carry more than text.
	Call(ctx context.Context, c Call) (Output, error)
}

// Spec describes a tool to models, drivers and workers.
type Spec struct {
	Name         string          `msgpack:"n" json:"name"`
	Description  string          `msgpack:"d,omitempty" json:"description,omitempty"`
	InputSchema  json.RawMessage `msgpack:"is,omitempty" json:"input_schema,omitempty"`  // JSON Schema; empty: any object
	OutputSchema json.RawMessage `msgpack:"os,omitempty" json:"output_schema,omitempty"` // JSON Schema of structured output

	Effects   content.Effects `msgpack:"e,omitempty" json:"effects,omitempty"`     // zero: unsafe to run twice
	Writes    bool            `msgpack:"w,omitempty" json:"writes,omitempty"`      // writes or edits files
	Exclusive bool            `msgpack:"x,omitempty" json:"exclusive,omitempty"`   // never runs at the same time as another call of its round
	Exact     bool            `msgpack:"ex,omitempty" json:"exact,omitempty"`      // the input determines what it does: a lasting approval covers only the same input
	Timeout   time.Duration   `msgpack:"to,omitempty" json:"timeout_ns,omitempty"` // zero: the worker's default
	MaxOutput int             `msgpack:"mo,omitempty" json:"max_output,omitempty"` // bytes of output in a result; zero: the host's limit

	Route       content.Route `msgpack:"r,omitempty" json:"route,omitempty"`
	DetachAfter time.Duration `msgpack:"da,omitempty" json:"detach_after_ns,omitempty"`
}

// Call is one invocation.
type Call struct {
	Session        content.SessionID
	Turn           content.TurnID
	ID             content.CallID
	Place          content.Place
	Name           string
	Input          json.RawMessage
	Attempt        int                   // 1, 2, …
	IdempotencyKey string                // the same for every attempt of this call
	Approved       []content.QuestionKey // questions that a person approved for this call; see NeedsApproval
	Resources      any                   // what the host shares with its tools; nil on a remote worker unless it sets some
	Caller         Caller                // nil on a remote worker
	Stash          Stash                 // stores output that does not fit in a result; nil if the host stores nothing

	// Permit judges a request that only the running tool can make, such as where a path leads when
	// it is opened; nil if no policy judges the call. An error ends the call. Questions are asked
	// before a call runs, so here only a denial counts.
	Permit func(ctx context.Context, kind, summary string, target any) error

	// Progress reports what the tool is doing; never nil inside Call. share is
	// between 0 and 1, or 0 if unknown. Call it as often as you like: the host limits
	// the rate.
	Progress func(text string, share float64)
}

// Caller is the session that makes a call, for tools that run their own session. A host's own tools
// may assert it to a larger interface.
type Caller interface {
	// Spend records what the call has used so far, in case it ends without an output. Each record
	// replaces the previous one.
	Spend(u content.Usage, n Counts)
}

// Counts is what sessions did on behalf of a call, in addition to the tokens that they used.
type Counts struct {
	Requests  int64 `msgpack:"rq,omitempty" json:"requests,omitempty"` // attempts at model calls
	ToolCalls int64 `msgpack:"tc,omitempty" json:"tool_calls,omitempty"`
}

// Output is what a tool returns.
type Output struct {
	Parts        []content.Part
	ChangedPaths []string // relative to the tool's root; ignored unless the Spec says Writes
	Metadata     content.Metadata
	Usage        content.Usage // of models that the tool called; counts toward the session's limits
	Counts       Counts        // counts of sessions that worked for the call; likewise
	Stashed      []string      // SHA-256 of blobs in the host's [Stash]; parts may refer only to these
}

// Text returns an output with one text part.
func Text(s string) Output { return Output{Parts: []content.Part{content.TextPart(s)}} }

// Result is a call's outcome and what the journal records with it.
type Result struct {
	Result       content.ToolResult `msgpack:"r" json:"result"`
	Duration     time.Duration      `msgpack:"d,omitempty" json:"duration_ns,omitempty"`
	ChangedPaths []string           `msgpack:"cp,omitempty" json:"changed_paths,omitempty"`
	Auth         json.RawMessage    `msgpack:"a,omitempty" json:"auth,omitempty"`
	Usage        content.Usage      `msgpack:"u,omitempty" json:"usage,omitzero"`   // of models that the tool called
	Counts       Counts             `msgpack:"co,omitempty" json:"counts,omitzero"` // of sessions that worked for the call
}
