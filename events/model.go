package events

import (
	"time"

	"github.com/turnlog/turnlog/content"
)

// ModelCallStarted records that a model is about to be called. The request is a
// reference, never a copy: the first TranscriptLen items of the transcript and
// the catalog with that digest. It counts as a request when it is recorded, so
// that a crash loop cannot exceed a limit.
type ModelCallStarted struct {
	Turn          content.TurnID        `msgpack:"t" json:"turn"`
	Round         int                   `msgpack:"r" json:"round"`
	Attempt       int                   `msgpack:"a" json:"attempt"`
	TranscriptLen int                   `msgpack:"n" json:"transcript_len"`
	Catalog       string                `msgpack:"ca,omitempty" json:"catalog,omitempty"`
	Cache         *content.CacheRequest `msgpack:"c,omitempty" json:"cache,omitempty"`
}

// ModelCallFailed records that an attempt brought no reply.
type ModelCallFailed struct {
	Turn       content.TurnID     `msgpack:"t" json:"turn"`
	Round      int                `msgpack:"r" json:"round"`
	Attempt    int                `msgpack:"a" json:"attempt"`
	Class      content.ErrorClass `msgpack:"cl" json:"class"`
	Code       string             `msgpack:"c,omitempty" json:"code,omitempty"`
	Message    string             `msgpack:"m,omitempty" json:"message,omitempty"`
	RetryAfter time.Duration      `msgpack:"ra,omitempty" json:"retry_after_ns,omitempty"` // what the provider asked for
	RetryAt    content.Time       `msgpack:"at,omitempty" json:"retry_at,omitempty"`       // set: another attempt follows then
}

// ContentDelta is live only: a piece of a reply in flight.
type ContentDelta struct {
	Turn    content.TurnID `msgpack:"t" json:"turn"`
	Round   int            `msgpack:"r" json:"round"`
	Attempt int            `msgpack:"a" json:"attempt"`
	Delta   content.Delta  `msgpack:"d" json:"delta"`
}

// ReplyRecorded records a whole reply, before anything can veto it: the log
// holds what was paid for.
type ReplyRecorded struct {
	Turn         content.TurnID       `msgpack:"t" json:"turn"`
	Round        int                  `msgpack:"r" json:"round"`
	Attempt      int                  `msgpack:"a" json:"attempt"`
	Items        []content.Item       `msgpack:"i,omitempty" json:"items,omitempty"`
	FinishReason content.FinishReason `msgpack:"fr" json:"finish_reason"`
	Model        string               `msgpack:"m,omitempty" json:"model,omitempty"`
	ResponseID   string               `msgpack:"id,omitempty" json:"response_id,omitempty"`
	Interrupted  bool                 `msgpack:"x,omitempty" json:"interrupted,omitempty"`
	Invalid      string               `msgpack:"iv,omitempty" json:"invalid,omitempty"` // why the answer does not fit the session's schema
}

// UsageUpdated records what a paid call used, once per call.
type UsageUpdated struct {
	Turn   content.TurnID `msgpack:"t" json:"turn"`
	Round  int            `msgpack:"r" json:"round"`
	Usage  content.Usage  `msgpack:"u" json:"usage"`
	Source string         `msgpack:"s" json:"source"`                   // model, compaction or child
	Call   content.CallID `msgpack:"c,omitempty" json:"call,omitempty"` // of a child whose call had been answered before it said so

	Requests  int64 `msgpack:"rq,omitempty" json:"requests,omitempty"`   // of a child: attempts at model calls
	ToolCalls int64 `msgpack:"tc,omitempty" json:"tool_calls,omitempty"` // of a child
}

// HookDecided records the answer of the hooks at one point.
type HookDecided struct {
	Turn       content.TurnID `msgpack:"t" json:"turn"`
	Round      int            `msgpack:"r" json:"round"`
	Point      string         `msgpack:"p" json:"point"`
	Call       content.CallID `msgpack:"c,omitempty" json:"call,omitempty"`
	Hook       string         `msgpack:"h,omitempty" json:"hook,omitempty"` // whose action it is; empty: all continued
	Action     string         `msgpack:"a" json:"action"`                   // continue, skip, terminate
	Reason     string         `msgpack:"r2,omitempty" json:"reason,omitempty"`
	FailedOpen []string       `msgpack:"fo,omitempty" json:"failed_open,omitempty"`
	Notes      []HookNote     `msgpack:"no,omitempty" json:"notes,omitempty"` // in the order of the hooks
}

// HookNote is what a hook that stood in nobody's way had to say: why it let the session
// go on, or how it broke, if it fails open.
type HookNote struct {
	Hook string `msgpack:"h" json:"hook"`
	Text string `msgpack:"t" json:"text"`
}

// MutationStarted records that a mutator is owed.
type MutationStarted struct {
	Turn    content.TurnID `msgpack:"t" json:"turn"`
	Mutator string         `msgpack:"m" json:"mutator"`
	Point   string         `msgpack:"p" json:"point"`
}

// MutationFinished records what a mutator did to the transcript. If Dirty, the
// transcript is Replacement from here on; the history stays readable.
type MutationFinished struct {
	Turn        content.TurnID   `msgpack:"t" json:"turn"`
	Mutator     string           `msgpack:"m" json:"mutator"`
	Point       string           `msgpack:"p" json:"point"`
	Dirty       bool             `msgpack:"d,omitempty" json:"dirty"`
	Before      string           `msgpack:"b,omitempty" json:"before,omitempty"` // digests
	After       string           `msgpack:"af,omitempty" json:"after,omitempty"`
	Replacement []content.Item   `msgpack:"r,omitempty" json:"replacement,omitempty"`
	OldTokens   int64            `msgpack:"ot,omitempty" json:"old_tokens,omitempty"`
	NewTokens   int64            `msgpack:"nt,omitempty" json:"new_tokens,omitempty"`
	Usage       content.Usage    `msgpack:"u,omitempty" json:"usage"`
	Error       string           `msgpack:"e,omitempty" json:"error,omitempty"`
	Metadata    content.Metadata `msgpack:"md,omitempty" json:"metadata,omitempty"`
}

// ToolRef names a tool and the digest of its spec.
type ToolRef struct {
	Name   string `msgpack:"n" json:"name"`
	Digest string `msgpack:"d" json:"digest"`
}

// CatalogSource is what one source offers, sorted by name.
type CatalogSource struct {
	Name  string    `msgpack:"n" json:"name"`
	Tools []ToolRef `msgpack:"t,omitempty" json:"tools,omitempty"`
}

// Catalog is what all sources offer, in order of registration. Digest covers the
// specs, so equal digests mean equal requests.
type Catalog struct {
	Digest  string          `msgpack:"d,omitempty" json:"digest,omitempty"`
	Sources []CatalogSource `msgpack:"s,omitempty" json:"sources,omitempty"`
}

// ToolCatalogChanged records that a source's tools differ from those of the last
// model call; the next request sees the new list.
type ToolCatalogChanged struct {
	Source  string    `msgpack:"s" json:"source"`
	Added   []ToolRef `msgpack:"a,omitempty" json:"added,omitempty"`
	Removed []string  `msgpack:"r,omitempty" json:"removed,omitempty"`
	Changed []ToolRef `msgpack:"c,omitempty" json:"changed,omitempty"`
	Digest  string    `msgpack:"d" json:"digest"` // of the whole catalog after the change
}
