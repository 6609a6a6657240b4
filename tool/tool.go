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
	// Spec describes the tool. It may be asked at any time and answers at once.
	Spec() Spec
	// Call runs the tool. An error becomes an error result for the model; see
	// Retry, AuthRequired and Failure for errors that say more. Call returns
	// promptly when ctx ends.
	Call(ctx context.Context, c Call) (Output, error)
}

// Spec describes a tool to models, drivers and workers.
type Spec struct {
	Name         string          `msgpack:"n" json:"name"`
	Description  string          `msgpack:"d,omitempty" json:"description,omitempty"`
	InputSchema  json.RawMessage `msgpack:"is,omitempty" json:"input_schema,omitempty"`  // JSON Schema; empty: any object
	OutputSchema json.RawMessage `msgpack:"os,omitempty" json:"output_schema,omitempty"` // JSON Schema of structured output

	Effects   content.Effects `msgpack:"e,omitempty" json:"effects,omitempty"`     // zero: running it twice may do harm
	Writes    bool            `msgpack:"w,omitempty" json:"writes,omitempty"`      // writes or edits files
	Exclusive bool            `msgpack:"x,omitempty" json:"exclusive,omitempty"`   // never beside another call of its round
	Timeout   time.Duration   `msgpack:"to,omitempty" json:"timeout_ns,omitempty"` // zero: the worker's default
	MaxOutput int             `msgpack:"mo,omitempty" json:"max_output,omitempty"` // bytes of output that a result holds; zero: what the host has room for

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
	Attempt        int               // 1, 2, …
	IdempotencyKey string            // the same for every attempt of this call
	Approved       []content.GateKey // what people approved for this call; see NeedsApproval
	Resources      any               // what the host shares with its tools; nil on a remote worker unless it sets some
	Caller         Caller            // nil on a remote worker
	Stash          Stash             // keeps what a result has no room for; nil where the host keeps nothing

	// Progress tells people what the tool is doing; never nil inside Call. share
	// is between 0 and 1, or 0 when it is not known. It may be called as often as the
	// tool likes: the host drops what nobody could read.
	Progress func(text string, share float64)
}

// Caller is the session that makes a call, for tools that do their work in a session of
// their own. A host's own tools find more in it.
type Caller interface {
	// Spend says what was used for the call until now, for a call that may end without an
	// output. The last word counts.
	Spend(u content.Usage, n Counts)
}

// Counts is what sessions that worked for a call did, beside the tokens that they used.
type Counts struct {
	Requests  int64 `msgpack:"rq,omitempty" json:"requests,omitempty"` // attempts at model calls
	ToolCalls int64 `msgpack:"tc,omitempty" json:"tool_calls,omitempty"`
}

// Output is what a tool hands back.
type Output struct {
	Parts        []content.Part
	ChangedPaths []string // relative to the tool's root; counted only if the Spec says Writes
	Metadata     content.Metadata
	Usage        content.Usage // of models that the tool called; counted on the session's limits
	Counts       Counts        // of sessions that worked for it; likewise
	Stashed      []string      // blobs that the host's [Stash] holds for it, by their SHA-256; parts refer to no others
}

// Text returns an output of one text part.
func Text(s string) Output { return Output{Parts: []content.Part{content.TextPart(s)}} }

// Result is a call's outcome with what the journal records beside it.
type Result struct {
	Result       content.ToolResult `msgpack:"r" json:"result"`
	Duration     time.Duration      `msgpack:"d,omitempty" json:"duration_ns,omitempty"`
	ChangedPaths []string           `msgpack:"cp,omitempty" json:"changed_paths,omitempty"`
	Auth         json.RawMessage    `msgpack:"a,omitempty" json:"auth,omitempty"`
	Usage        content.Usage      `msgpack:"u,omitempty" json:"usage,omitzero"`   // of models that the tool called
	Counts       Counts             `msgpack:"co,omitempty" json:"counts,omitzero"` // of sessions that worked for it
}
