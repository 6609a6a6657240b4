package main

import (
	"encoding/json"
	"time"

	"github.com/turnlog/turnlog/commands/schedule"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/model/registry"
)

type sessionReport struct {
	Session   content.SessionID `json:"session"`
	State     string            `json:"state"` // idle, working, approval, yield, ready, closed, deleted
	Model     string            `json:"model"`
	Turns     int               `json:"turns"`
	Turn      content.TurnID    `json:"turn,omitempty"` // the open one
	Items     int               `json:"items"`
	ToolCalls int64             `json:"tool_calls"`
	Approvals []events.Approval `json:"approvals,omitempty"`
	Epoch     uint64            `json:"epoch"`
	Journal   headReport        `json:"journal"`
}

type callReport struct {
	ID       content.CallID `json:"id"`
	Name     string         `json:"name"`
	Status   string         `json:"status"` // ok, error, denied, cancelled or unknown
	Route    string         `json:"route"`  // foreground, background or detach
	Attempts int            `json:"attempts"`
}

type turnReport struct {
	Session      content.SessionID    `json:"session"`
	Turn         content.TurnID       `json:"turn"`
	FinishReason content.FinishReason `json:"finish_reason"`
	Text         string               `json:"text"`
	ToolCalls    []callReport         `json:"tool_calls"`
	Approvals    []approvalReport     `json:"approvals"`       // what it waits for
	Limit        *limitReport         `json:"limit,omitempty"` // what ended it
	Journal      headReport           `json:"journal"`
}

type approvalReport struct {
	Call      content.CallID         `json:"call"`
	Tool      string                 `json:"tool"`
	Reason    content.ApprovalReason `json:"reason"`
	Summary   string                 `json:"summary"`
	Input     json.RawMessage        `json:"input"`
	Digest    string                 `json:"digest"`
	ExpiresAt *content.Time          `json:"expires_at"` // null: never
}

type limitReport struct {
	Kind  events.LimitKind `json:"kind"`
	Limit int64            `json:"limit"`
	Used  int64            `json:"used"`
}

type headReport struct {
	Seq uint64 `json:"seq"`
}

type sent struct {
	Session content.SessionID `json:"session"`
	Command string            `json:"command"`
}

type openCall struct {
	Call     content.CallID `json:"call"`
	Tool     string         `json:"tool"`
	State    string         `json:"state"` // waiting, approval, running or background
	Route    string         `json:"route"`
	Turn     content.TurnID `json:"turn"`
	Attempts int            `json:"attempts"`
}

type deadLetter struct {
	Session  content.SessionID `json:"session"`
	Call     content.CallID    `json:"call"`
	Tool     string            `json:"tool"`
	State    string            `json:"state"` // dead, again, dropped, or over: it has an outcome, or its session is closed
	Effects  string            `json:"effects"`
	Queue    string            `json:"queue"`
	Turn     content.TurnID    `json:"turn"`
	Input    json.RawMessage   `json:"input"`
	Attempts int               `json:"attempts"` // that were dispatched
	Lost     []lostAttempt     `json:"lost"`
	Settled  []deadSettlement  `json:"settled"` // by people
	Result   string            `json:"result"`  // the status of its last result; "": none yet
}

type lostAttempt struct {
	Attempt int          `json:"attempt"`
	At      content.Time `json:"at"`
	Reason  string       `json:"reason"`
}

type deadSettlement struct {
	Outcome events.Settlement `json:"outcome"`
	By      string            `json:"by"`
	Reason  string            `json:"reason"`
	At      content.Time      `json:"at"`
}

type taskReport struct {
	Status       string            `json:"status"` // done, failed, cancelled or blocked; needs_approval while a person has to decide
	Verified     bool              `json:"verified"`
	VerifyStatus string            `json:"verify_status"` // passed, failed, skipped, cancelled, or empty: it never came to that
	Cancelled    bool              `json:"cancelled"`
	Attempts     int               `json:"attempts"`
	Summary      string            `json:"summary"`
	Text         string            `json:"text"`
	Approvals    []approvalReport  `json:"approvals"`
	Session      content.SessionID `json:"session"`
}

type toolRow struct {
	Name        string          `json:"name"`
	Source      string          `json:"source"`
	Effects     content.Effects `json:"effects"` // "": running it twice may do harm
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`

	*ToolUse // with --agent
}

type ToolUse struct {
	Permission events.Action `json:"permission"` // of the call as such: allow or ask
	Route      string        `json:"route"`
	Timeout    string        `json:"timeout,omitempty"`
	MaxOutput  int           `json:"max_output,omitempty"`
}

type scheduleRow struct {
	Name    string            `json:"name"`
	At      *time.Time        `json:"at,omitempty"`
	Every   string            `json:"every,omitempty"`
	Cron    string            `json:"cron,omitempty"`
	Session content.SessionID `json:"session,omitempty"` // that gets the input; else each firing is a new one
	Text    string            `json:"text,omitempty"`
	Overlap schedule.Overlap  `json:"overlap,omitempty"`
	By      string            `json:"by,omitempty"`
	Next    *time.Time        `json:"next,omitempty"`
	Last    *outcomeRow       `json:"last,omitempty"`
	Over    bool              `json:"over,omitempty"`  // it was a one-time schedule and failed
	Error   string            `json:"error,omitempty"` // it cannot be read
}

type outcomeRow struct {
	Result  schedule.Result   `json:"result"`
	Session content.SessionID `json:"session,omitempty"` // the last that was started
}

type gcReport struct {
	DryRun   bool        `json:"dry_run"`
	Held     heldReport  `json:"held"`
	Sessions []expiry    `json:"sessions"`
	Blobs    *blobReport `json:"blobs"`
}

type expiry struct {
	Session content.SessionID `json:"session"`
	Entries uint64            `json:"entries"`
	Bytes   uint64            `json:"bytes"`
	Why     string            `json:"why"`
	Kept    string            `json:"kept,omitempty"` // why it was not deleted
}

type heldReport struct {
	Sessions   int    `json:"sessions"`
	Bytes      uint64 `json:"bytes"`
	Tombstones int    `json:"tombstones"`
}

type removalReport struct {
	Sessions []removal   `json:"sessions"`
	Blobs    *blobReport `json:"blobs,omitempty"`
}

type removal struct {
	Session content.SessionID `json:"session"`
	events.Deletion
	Removed uint64 `json:"removed_entries"` // now; the others were before
}

type blobReport struct {
	Checked int    `json:"checked"`
	Removed int    `json:"removed"`
	Bytes   uint64 `json:"bytes"`
	Young   int    `json:"young"`
	Parts   int    `json:"parts"`
}

type doctorReport struct {
	Server   string    `json:"server"`
	Healthy  bool      `json:"healthy"` // no errors; there may be warnings
	Findings []finding `json:"findings"`
	Looked   looked    `json:"looked_at"`
}

type looked struct {
	Nodes    *int  `json:"nodes"` // that answer
	Queues   *int  `json:"queues"`
	Sessions *int  `json:"sessions_at_work"` // with a turn that is open, or a token
	Took     int64 `json:"took_ms"`
}

type finding struct {
	Severity string              `json:"severity"`
	Check    string              `json:"check"` // stable, for scripts
	Object   string              `json:"object,omitempty"`
	What     string              `json:"what"`
	Why      string              `json:"why"`
	Do       string              `json:"do"`
	Sessions []content.SessionID `json:"sessions,omitempty"` // some of them
}

type openApproval struct {
	Session content.SessionID `json:"session"`
	approvalReport
}

type modelsReport struct {
	Default   string            `json:"default"` // the model of a session that names none, in this process
	Because   string            `json:"because"` // the variable that says so; "": none does
	Providers []registry.Status `json:"providers"`
}
