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
)

// Codes of failed calls of a service in another process.
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

// Headers returns the headers that say to a service which call it gets.
func Headers(c Call) map[string]string {
	return map[string]string{
		HeaderKey: c.IdempotencyKey, HeaderSession: string(c.Session), HeaderCall: string(c.ID), HeaderAttempt: strconv.Itoa(c.Attempt),
	}
}

// Description is how a service describes a tool.
type Description struct {
	Description  string          `json:"description"`
	Input        json.RawMessage `json:"input"`         // JSON schema of an object; none: no properties
	OutputSchema json.RawMessage `json:"output_schema"` // JSON schema of structured output; none: any
	Effects      string          `json:"effects"`       // read_only, idempotent or none
	Exclusive    bool            `json:"exclusive"`     // never runs at the same time as another call of its round
	Timeout      string          `json:"timeout"`       // timeout of a call, such as 30s
}

// Spec returns the spec of the tool under a name. timeout applies if the description has none.
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
	After time.Duration // how long the service asks to wait before a retry; zero: it does not say
	Err   error
}

// Error returns the text of the cause.
func (e *InterruptedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *InterruptedError) Unwrap() error { return e.Err }

// How often a call is attempted if its service does not answer, and the pauses in between.
const (
	attempts   = 4
	firstPause = 200 * time.Millisecond
	mostPause  = 30 * time.Second
)

// Attempt calls try until it returns without an [InterruptedError], a few times at most, with pauses. A call that the
// service may have run is tried again only if its effects allow that. If they do not, the call ends with [CodeUnknown],
// which a worker reports as a lost call, and the call becomes a dead letter. Any other call ends with [CodeUnavailable].
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

// Answer returns the output for a service's answer, by its media type. Without a media type it is text, if it is valid
// text.
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
