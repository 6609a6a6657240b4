package events

import (
	"time"

	"github.com/turnlog/turnlog/content"
)

// ModelCallStarted records that a model call is about to start. It refers to the
// request instead of copying it: the first TranscriptLen items of the transcript, and
// the catalog with the digest. The attempt counts against the limits from here on, so
// a crash loop cannot exceed them.
type ModelCallStarted struct {
	Turn          content.TurnID        `msgpack:"t" json:"turn"`
	Round         int                   `msgpack:"r" json:"round"`
	Attempt       int                   `msgpack:"a" json:"attempt"`
	TranscriptLen int                   `msgpack:"n" json:"transcript_len"`
	Catalog       string                `msgpack:"ca,omitempty" json:"catalog,omitempty"`
	Cache         *content.CacheRequest `msgpack:"c,omitempty" json:"cache,omitempty"`
}

// ModelCallFailed records an attempt without a reply.
type ModelCallFailed struct {
	Turn       content.TurnID     `msgpack:"t" json:"turn"`
	Round      int                `msgpack:"r" json:"round"`
	Attempt    int                `msgpack:"a" json:"attempt"`
	Class      content.ErrorClass `msgpack:"cl" json:"class"`
	Code       string             `msgpack:"c,omitempty" json:"code,omitempty"`
	Message    string             `msgpack:"m,omitempty" json:"message,omitempty"`
	RetryAfter time.Duration      `msgpack:"ra,omitempty" json:"retry_after_ns,omitempty"` // the delay that the provider asked for
	RetryAt    content.Time       `msgpack:"at,omitempty" json:"retry_at,omitempty"`       // when the next attempt starts; zero: there is none
	RetryUntil content.Time       `msgpack:"u,omitempty" json:"retry_until,omitempty"`     // no attempt starts after this time
}

// ContentDelta is live only: a fragment of a reply in progress.
type ContentDelta struct {
	Turn    content.TurnID `msgpack:"t" json:"turn"`
	Round   int            `msgpack:"r" json:"round"`
	Attempt int            `msgpack:"a" json:"attempt"`
	Delta   content.Delta  `msgpack:"d" json:"delta"`

	// After is one more than the number of bytes of the part's text before the fragment, so that a reader
	// notices what it missed. 0: the sender's release does not count them.
	After int `msgpack:"af,omitempty" json:"after,omitempty"`
}

// ContentRepeated is live only: a fragment that was sent before as a ContentDelta, perhaps cut in another way. Hosts send all
// fragments of a long reply again from time to time, so that a reader that joined in its middle, or missed a fragment, need
// not wait for its end. It is a kind of its own, since readers that show fragments as they come would show it twice.
type ContentRepeated ContentDelta

// ReplyRecorded records a complete reply. It is recorded before anything can veto it,
// because it has been paid for.
type ReplyRecorded struct {
	Turn         content.TurnID       `msgpack:"t" json:"turn"`
	Round        int                  `msgpack:"r" json:"round"`
	Attempt      int                  `msgpack:"a" json:"attempt"`
	Items        []content.Item       `msgpack:"i,omitempty" json:"items,omitempty"`
	FinishReason content.FinishReason `msgpack:"fr" json:"finish_reason"`
	Model        string               `msgpack:"m,omitempty" json:"model,omitempty"`
	ResponseID   string               `msgpack:"id,omitempty" json:"response_id,omitempty"`
	Interrupted  bool                 `msgpack:"x,omitempty" json:"interrupted,omitempty"`
	Invalid      string               `msgpack:"iv,omitempty" json:"invalid,omitempty"` // why the answer violates the session's schema
}

// UsageUpdated records the usage of a model call, once per call.
type UsageUpdated struct {
	Turn   content.TurnID `msgpack:"t" json:"turn"`
	Round  int            `msgpack:"r" json:"round"`
	Usage  content.Usage  `msgpack:"u" json:"usage"`
	Source string         `msgpack:"s" json:"source"`                   // model, compaction or child
	Call   content.CallID `msgpack:"c,omitempty" json:"call,omitempty"` // call of a child that reported after the call was answered

	Requests  int64 `msgpack:"rq,omitempty" json:"requests,omitempty"`   // of a child: model call attempts
	ToolCalls int64 `msgpack:"tc,omitempty" json:"tool_calls,omitempty"` // of a child
}

// Own returns the usage without sub-agents: their own sessions record theirs.
func (u UsageUpdated) Own() content.Usage {
	if u.Source == "child" {
		return content.Usage{}
	}
	return u.Usage
}

// HookDecided records the decision of the hooks at one point.
type HookDecided struct {
	Turn       content.TurnID `msgpack:"t" json:"turn"`
	Round      int            `msgpack:"r" json:"round"`
	Point      string         `msgpack:"p" json:"point"`
	Call       content.CallID `msgpack:"c,omitempty" json:"call,omitempty"`
	Hook       string         `msgpack:"h,omitempty" json:"hook,omitempty"` // the hook that decided; empty: all continued
	Action     string         `msgpack:"a" json:"action"`                   // continue, skip, terminate
	Reason     string         `msgpack:"r2,omitempty" json:"reason,omitempty"`
	FailedOpen []string       `msgpack:"fo,omitempty" json:"failed_open,omitempty"`
	Notes      []HookNote     `msgpack:"no,omitempty" json:"notes,omitempty"` // in the order of the hooks
}

// HookNote is the comment of a hook that let the session continue: its reason, or the error of a hook
// that fails open.
type HookNote struct {
	Hook string `msgpack:"h" json:"hook"`
	Text string `msgpack:"t" json:"text"`
}

// MutationStarted records that a mutator is pending.
type MutationStarted struct {
	Turn    content.TurnID `msgpack:"t" json:"turn"`
	Mutator string         `msgpack:"m" json:"mutator"`
	Point   string         `msgpack:"p" json:"point"`
}

// MutationFinished records the outcome of a mutator. If Dirty, Replacement is the
// transcript from here on. The journal keeps the history.
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

// Compacts reports whether the mutation is a compaction: it made the transcript smaller.
func (m MutationFinished) Compacts() bool { return m.Dirty && m.NewTokens < m.OldTokens }
