package app

import (
	"encoding/json"
	"strings"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// Usage is the usage of tokens in reports.
type Usage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
}

// UsageOf returns the usage for a report.
func UsageOf(u content.Usage) Usage {
	return Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens}
}

// Head is the end of a journal in reports.
type Head struct {
	Seq  uint64      `json:"seq"`
	Hash events.Hash `json:"hash"`
}

// HeadOf returns the end of a journal for a report.
func HeadOf(h journal.Head) Head { return Head{Seq: h.Seq, Hash: h.Hash} }

// Approval is a question that a person has to answer, in reports.
type Approval struct {
	Call      content.CallID         `json:"call"`
	Tool      string                 `json:"tool"`
	Reason    content.ApprovalReason `json:"reason"`
	Summary   string                 `json:"summary"`
	Input     json.RawMessage        `json:"input"`
	Digest    string                 `json:"digest"`
	ExpiresAt *content.Time          `json:"expires_at"` // null: never
}

// ApprovalOf returns an approval for a report.
func ApprovalOf(a events.Approval) Approval {
	r := Approval{Call: a.CallID, Tool: a.Tool, Reason: a.Reason, Summary: a.Summary, Input: a.Input, Digest: a.Digest}
	if a.ExpiresAt != 0 {
		r.ExpiresAt = &a.ExpiresAt
	}
	return r
}

// Question says what an approval is about.
func Question(a events.Approval) string {
	if a.Summary != "" {
		return render.Style{}.Line(a.Summary)
	}
	return strings.ReplaceAll(string(a.Reason), "_", " ")
}

// RouteName returns a route as users write it.
func RouteName(r content.Route) string {
	if r == content.Foreground {
		return "foreground"
	}
	return string(r)
}
