// Package report describes a deployment's sessions: lists of them, their open calls and pending approvals,
// and what was asked about a call.
//
// The one idea: a report is computed from a session's state or journal and has the same JSON everywhere, on a
// command line or over HTTP. Nothing here changes a session.
package report

import (
	"context"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/session"
)

// Read reads a session. It returns a *session.DeletedError for a deleted one.
func Read(ctx context.Context, c *client.Client, id content.SessionID) (*loop.State, journal.Head, error) {
	state, head, err := c.Read(ctx, id)
	if err == nil && state.Deleted != nil {
		err = &session.DeletedError{Session: id, Deletion: *state.Deleted}
	}
	return state, head, err
}

// Usage is the usage of tokens in reports.
type Usage struct {
	InputTokens      int64  `json:"input_tokens"`
	OutputTokens     int64  `json:"output_tokens"`
	ReasoningTokens  int64  `json:"reasoning_tokens"`
	CacheReadTokens  int64  `json:"cache_read_tokens"`
	CacheWriteTokens int64  `json:"cache_write_tokens"`
	CostMicros       int64  `json:"cost_micros"` // millionths of the currency; 0 if prices are unknown
	Currency         string `json:"currency"`
}

// Head is the end of a journal in reports.
type Head struct {
	Seq  uint64      `json:"seq"`
	Hash events.Hash `json:"hash"`
}

// HeadOf returns the end of a journal for a report.
func HeadOf(h journal.Head) Head { return Head{Seq: h.Seq, Hash: h.Hash} }

// RouteName returns a route as users write it.
func RouteName(r content.Route) string {
	if r == content.Foreground {
		return "foreground"
	}
	return string(r)
}
