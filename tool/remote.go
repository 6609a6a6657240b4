package tool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"mime"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/internal/tracing"
)

// Codes of calls that a service in another process should have run.
const (
	CodeUnavailable = "unavailable"     // the service cannot be reached, or refuses; nothing was done
	CodeUnknown     = "outcome_unknown" // the service may have run the call, which must not run twice
)

// Names of [Headers].
const (
	HeaderKey     = "Idempotency-Key" // the same for every attempt of the call
	HeaderSession = "Turnlog-Session"
	HeaderCall    = "Turnlog-Call"
	HeaderAttempt = "Turnlog-Attempt" // 1, 2, …
)

// Headers returns what a service gets with a call, besides its input.
func Headers(ctx context.Context, c Call) map[string]string {
	out := map[string]string{
		HeaderKey: c.IdempotencyKey, HeaderSession: string(c.Session), HeaderCall: string(c.ID), HeaderAttempt: strconv.Itoa(c.Attempt),
	}
	if parent := tracing.Parent(ctx); parent != "" {
		out[tracing.HeaderParent] = parent
	}
	if baggage := tracing.Baggage(ctx); baggage != "" {
		out[tracing.HeaderBaggage] = baggage
	}
	return out
}

// Description is how a service describes a tool.
type Description struct {
	Description  string          `json:"description"`
	Input        json.RawMessage `json:"input"`         // JSON schema of an object; none: no properties
	OutputSchema json.RawMessage `json:"output_schema"` // JSON schema of structured output; none: any
	Effects      string          `json:"effects"`       // read_only, idempotent or none
	Exclusive    bool            `json:"exclusive"`     // never at the same time as another call of its round
	Timeout      string          `json:"timeout"`       // of a call, such as 30s
}

// Spec returns the spec of the tool under a name. timeout is that of a call if the description has none.
func (d Description) Spec(name string, timeout time.Duration) (Spec, error) {
	s := Spec{Name: name, Description: d.Description, InputSchema: d.Input, OutputSchema: d.OutputSchema, Exclusive: d.Exclusive, Timeout: timeout}
	if strings.TrimSpace(d.Description) == "" {
		return s, errors.New("description: is missing: tell the model what the tool does and when to use it")
	}
	var err error
	if s.Effects, err = content.ParseEffects(d.Effects); err != nil {
		return s, fmt.Errorf("effects: %w", err)
	}
	if d.Timeout != "" {
		if s.Timeout, err = time.ParseDuration(d.Timeout); err != nil || s.Timeout <= 0 {
			return s, fmt.Errorf("timeout: %q: use a duration such as 30s", d.Timeout)
		}
	}
	if len(bytes.TrimSpace(d.Input)) == 0 {
		s.InputSchema = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	}
	return s, nil
}

// InterruptedError is the error of an attempt at a call that got no answer from its service.
type InterruptedError struct {
	Sent  bool          // the service may have run the call
	After time.Duration // when the service wants to be asked again; zero: it does not say
	Err   error
}

// Error says why.
func (e *InterruptedError) Error() string { return e.Err.Error() }

// Unwrap returns why.
func (e *InterruptedError) Unwrap() error { return e.Err }

// The attempts at a call whose service does not answer, and the pauses between them.
const (
	attempts   = 4
	firstPause = 200 * time.Millisecond
	mostPause  = 30 * time.Second
)

// Attempt calls try until it ends without an [InterruptedError], with pauses, a few times at most. What a service may have run
// is tried again only if its effects allow that. If they do not, the call ends with [CodeUnknown], which
// a worker reports as the loss of the call: it becomes a dead letter. Any other call ends with [CodeUnavailable].
func Attempt(ctx context.Context, effects content.Effects, try func(ctx context.Context) (Output, error)) (Output, error) {
	for n := 1; ; n++ {
		out, err := try(ctx)
		broken, ok := errors.AsType[*InterruptedError](err)
		switch {
		case !ok:
			return out, err
		case ctx.Err() != nil:
			return Output{}, context.Cause(ctx)
		case broken.Sent && !effects.Retryable():
			return Output{}, Failure(CodeUnknown, "%v; whether the call had an effect is not known", broken)
		case n == attempts && broken.Sent:
			return Output{}, Failure(CodeUnavailable, "%v", broken)
		case n == attempts:
			return Output{}, Failure(CodeUnavailable, "%v; nothing was done", broken)
		}
		wait := firstPause << (n - 1)
		if !pause.For(ctx, min(max(wait/2+rand.N(wait/2), broken.After), mostPause)) {
			return Output{}, context.Cause(ctx)
		}
	}
}

// Answer returns the output for bytes that a service answered, by their media type; "": text, unless they are none.
func Answer(mediaType string, data []byte) Output {
	kind, _, err := mime.ParseMediaType(mediaType)
	if err != nil {
		kind = ""
	}
	family, _, _ := strings.Cut(kind, "/")
	switch {
	case len(data) == 0:
		return Output{}
	case (kind == "application/json" || strings.HasSuffix(kind, "+json")) && json.Valid(data):
		return Output{Parts: []content.Part{content.StructuredPart(data)}}
	case family == "image" || family == "audio" || family == "video":
		return media(content.MediaKind, family, kind, data)
	case family != "text" && !utf8.Valid(data):
		return media(content.FileKind, "document", cmp.Or(kind, "application/octet-stream"), data)
	}
	return Text(string(data))
}

func media(k content.PartKind, modality, kind string, data []byte) Output {
	return Output{Parts: []content.Part{{Kind: k, Media: &content.Media{Modality: modality, MIME: kind, Bytes: data}}}}
}
