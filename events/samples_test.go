package events

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/sample"
)

const sampleTime = content.Time(1_700_000_000_123_456_789)

// samples returns one event of each kind with all fields set.
func samples() []Event {
	return append(append(sessionSamples(), modelSamples()...), append(toolSamples(), turnSamples()...)...)
}

func sampleEntry(evs ...Event) Entry {
	return Entry{
		Version: Version,
		Session: "s-1",
		Seq:     7,
		Prev:    HashOf([]byte("the entry before")),
		Cause:   "cmd-7",
		At:      sampleTime,
		Epoch:   2,
		Cursors: []Cursor{{Lane: LaneAsk, Seq: 41, At: sampleTime}, {Lane: LaneReport, Seq: 1 << 40}},
		Events:  evs,
	}
}

func sampleMetadata() content.Metadata {
	return content.Metadata{}.With("origin", "test").With("weights", []int{1, 2})
}

func sampleUsage() content.Usage {
	return content.Usage{
		InputTokens: 1200, OutputTokens: 80, ReasoningTokens: 30, CacheReadTokens: 900,
		CacheWriteTokens: 100, CostMicros: 4200, Currency: "EUR",
	}
}

func sampleResult() content.ToolResult {
	return content.ToolResult{
		CallID: "call_b", Name: "fs_read_file", Status: content.StatusError, IsError: true, Code: "failed",
		Output:   []content.Part{content.TextPart("Tool failed: no such file")},
		Metadata: sampleMetadata(),
	}
}

func sampleRestored() *Restored {
	return &Restored{Backup: "01KAZ0000000000000000BACKP", Taken: sampleTime}
}

func sampleCall() content.ToolCall {
	return content.ToolCall{
		ID: "call_b", Place: content.PlaceOf(3, 2, 1), Name: "fs_read_file",
		Input: json.RawMessage(`{"path":"go.mod"}`), ProviderID: "toolu/01",
	}
}

// sampleItems returns items that together have all fields set.
func sampleItems() []content.Item {
	usage, call, result := sampleUsage(), sampleCall(), sampleResult()
	return []content.Item{{
		ID: "i9", Kind: content.Assistant, CreatedAt: sampleTime, Usage: &usage,
		FinishReason: content.ToolCalls, Metadata: sampleMetadata(),
		Parts: []content.Part{
			{
				Kind: content.ReasoningKind, Text: "Let me look.",
				Reasoning: &content.Reasoning{Signature: []byte{1, 2}, Encrypted: []byte{3}, Redacted: true},
			},
			{
				Kind: content.FileKind, Name: "a.png",
				Media: &content.Media{Modality: "image", MIME: "image/png", Bytes: []byte{0, 255}, URI: "file:///a.png"},
			},
			{Kind: content.CustomKind, Name: "chart", Data: json.RawMessage(`[1,2]`), Metadata: sampleMetadata()},
			{Kind: content.ToolCallKind, Call: &call},
			{Kind: content.ToolResultKind, Result: &result},
		},
	}, content.UserText("Wie geht's? \u2028 <tag> \xff")}
}

func sampleLimits() Limits {
	return Limits{
		MaxRounds: 8, Requests: 20, InputTokens: 1e6, OutputTokens: 1e5, TotalTokens: -1, ToolCalls: 50,
		CostMicros: 2_000_000, WallClock: time.Hour,
	}
}

func sampleCache() content.CacheRequest {
	return content.CacheRequest{
		Mode: "best_effort", Retention: "short", Key: "team",
		Breakpoints: []content.Breakpoint{{Kind: "part_end", Item: 2, Part: 1}},
	}
}

func sampleConfig() Config {
	cache := sampleCache()
	return Config{
		Digest: "d0", Model: "scripted:x", ModelData: []byte("replies: []"),
		Agent: &AgentRef{Name: "mender", Version: "0123456789abcdef", Data: json.RawMessage(`{"name":"mender"}`), Local: true, Known: true},
		Catalog: Catalog{Digest: "d1", Sources: []CatalogSource{
			{Name: "files", Tools: []ToolRef{{Name: "fs_read_file", Digest: "d2"}}},
		}},
		Tools: []string{"fs_read_file"}, Rules: []Rule{{Tool: "fs_*", Action: RuleAsk, Queue: "q"}}, MaxParallel: 4, FailRun: true,
		Routes:   []RouteRule{{Tool: "shell_*", Route: content.DetachSoon, DetachAfter: time.Minute}},
		Hooks:    []Registration{{Name: "guard", Points: []string{"pre_llm_call", "post_llm_call"}}},
		Mutators: []Registration{{Name: "compact", Points: []string{"before_model"}}},
		Limits:   sampleLimits(), SessionLimits: sampleLimits(),
		Retry: Retry{
			ModelAttempts: 5, ToolAttempts: 2, LostAttempts: 9,
			Backoff: time.Second, MaxBackoff: time.Minute, ModelPatience: time.Hour, AskLost: true,
		},
		Cache: &cache, Output: &Output{Schema: json.RawMessage(`{"type":"object"}`), Repairs: 1}, ApprovalTTL: 24 * time.Hour, NotifyOnly: true,
	}
}

func sampleTask() TaskSpec {
	return TaskSpec{Goal: "make it green", Verifier: []string{"go", "test", "./..."}, VerifierFunc: true, MaxRetries: 2}
}

func sampleOptions() *TurnOptions {
	l := sampleLimits()
	return &TurnOptions{
		Limits: &l, Sequential: true,
		Rules:  [][]Rule{{{Tool: "shell_*", Action: RuleDeny, Queue: "q"}}},
		Routes: []RouteRule{{Tool: "shell_*", Route: content.DetachSoon, DetachAfter: time.Minute}},
	}
}

func sessionSamples() []Event {
	return []Event{
		DriverClaimed{Epoch: 2, Node: "node-a", Token: "$JS.ACK.x", Lost: []content.Place{content.PlaceOf(3, 2, 1)}, Tickets: true, RetriedBy: "ada", User: "ada", Key: "T0uaTKkNbe0ytWwa", Keys: 3, Checked: 17, Restored: sampleRestored(), MovedFrom: &MovedFrom{Cell: "9f86d081884c7d65", Place: "nats://n1:4222", Tombstone: HashOf([]byte("tombstone")), Entry: []byte("tombstone")}},
		Parked{Timer: true, Calls: 2},
		SnapshotTaken{Format: 18, Digest: HashOf([]byte("state"))},
		CommandSigned{
			Command: "close", Said: []byte{0x81, 0xa1, 'r', 0xa4, 'd', 'o', 'n', 'e'}, At: sampleTime,
			Signature: content.Signature{Key: "T0uaTKkNbe0ytWwa", Bytes: []byte{1, 2, 3}}, Schedule: []byte{0x80},
		},
		RunStarted{
			Config: sampleConfig(), Transcript: sampleItems(), Stepped: true, Metadata: sampleMetadata(),
			Parent: "s-0", From: "s-0@17", By: "ada", User: "web",
		},
		ConfigChanged{Config: sampleConfig()},
		PolicyApplied{Policy: Policy{
			Name: "v3", Digest: "8f43",
			Subjects: []Subject{{Agent: "coder", Opener: "alice"}, {Agent: "x", Opener: "bob", AgentClaimed: true, OpenerClaimed: true}},
			Rules:    [][]Rule{{{Tool: "shell_*", Action: RuleAsk, Queue: "sandbox"}, {Tool: "*", Action: RuleGuard}}},
		}},
		CacheOverrideSet{Cache: sampleCache()},
		ToolsAllowed{Grant: "grant-1", Tools: []string{"fs_*", "shell_exec"}, By: "ada", User: "web"},
		SessionClosed{Reason: "done", By: "ada", User: "web"},
		ModelSwitched{Model: "scripted:y", Data: []byte("replies: []"), By: "ada", User: "web"},
		SessionDeleted{By: "ada", User: "ada", Reason: "asked to", Expired: true, Erased: true, Restored: sampleRestored(), MovedTo: &MovedTo{Cell: "60303ae22b998861", Place: "nats://n2:4222"}},
		Refused{Command: "cmd-8", Reason: "busy", Detail: "turn-3 is open", After: 12},
	}
}

func modelSamples() []Event {
	cache, call := sampleCache(), sampleCall()
	return []Event{
		ModelCallStarted{Turn: "turn-3", Round: 2, Attempt: 1, TranscriptLen: 9, Catalog: "d1", Cache: &cache},
		ModelCallFailed{
			Turn: "turn-3", Round: 2, Attempt: 1, Class: content.ClassRateLimit, Code: "429", Message: "slow down",
			RetryAfter: 3 * time.Second, RetryAt: sampleTime.Add(3 * time.Second), RetryUntil: sampleTime.Add(5 * time.Minute),
		},
		ContentDelta{Turn: "turn-3", Round: 2, Attempt: 1, Delta: content.Delta{
			Part: 1, Op: content.CommitPart, Kind: content.ToolCallKind, Text: "x", Call: &call,
		}, After: 7},
		ContentRepeated{Turn: "turn-3", Round: 2, Attempt: 1, Delta: content.Delta{
			Part: 1, Op: content.CommitPart, Kind: content.ToolCallKind, Text: "x", Call: &call,
		}, After: 7},
		ReplyRecorded{
			Turn: "turn-3", Round: 2, Attempt: 1, Items: sampleItems(), FinishReason: content.ToolCalls,
			Model: "m-2025", ResponseID: "resp_1", Interrupted: true, Invalid: "no",
		},
		UsageUpdated{Turn: "turn-3", Round: 2, Usage: sampleUsage(), Source: "child", Call: "call_b", Requests: 3, ToolCalls: 2},
		HookDecided{
			Turn: "turn-3", Round: 2, Point: "pre_tool_execution", Call: "call_b", Hook: "guard", Action: "skip",
			Reason: "not now", FailedOpen: []string{"metrics"}, Notes: []HookNote{{Hook: "metrics", Text: "no answer"}},
		},
		MutationStarted{Turn: "turn-3", Mutator: "compact", Point: "before_model"},
		MutationFinished{
			Turn: "turn-3", Mutator: "compact", Point: "before_model", Dirty: true, Before: "d3", After: "d4",
			Replacement: sampleItems(), OldTokens: 9000, NewTokens: 800, Usage: sampleUsage(), Error: "half done",
			Metadata: sampleMetadata(),
		},
		ToolCatalogChanged{
			Source: "files", Added: []ToolRef{{Name: "fs_search", Digest: "d5"}}, Removed: []string{"fs_find"},
			Changed: []ToolRef{{Name: "fs_read_file", Digest: "d6"}}, Digest: "d7",
		},
	}
}

func toolSamples() []Event {
	result := sampleResult()
	result.Output = sampleItems()[0].Parts
	return []Event{
		ToolCallRequested{Turn: "turn-3", Round: 2, Call: sampleCall(), Routing: content.Routing{
			Known: true, Source: "files", Queue: "default", Effects: content.ReadOnly, Declared: new(content.Idempotent), Route: content.DetachSoon,
			DetachAfter: time.Minute, Quiet: true, Manual: true, Exclusive: true, Writes: true, Timeout: time.Hour, MaxOutput: 4096, Digest: "d8",
		}},
		ApprovalRequired{Approval: Approval{
			ID: "t3-r2-c1-g1", CallID: "call_b", TaskID: content.PlaceOf(3, 2, 1), Turn: "turn-3", Round: 2,
			Tool: "fs_read_file", Input: json.RawMessage(`{"path":"go.mod"}`), Digest: "d8",
			RequestKind: "filesystem.read", Scope: "/src/go.mod", Reason: content.SensitivePath, Summary: "read go.mod",
			Metadata: sampleMetadata(), ExpiresAt: sampleTime.Add(time.Hour), Asker: AskedByRules,
		}},
		ApprovalResolved{
			Signature: &content.Signature{Key: "T0uaTKkNbe0ytWwa", Bytes: []byte{1, 2}},
			Approval:  "t3-r2-c1-g1", Call: "call_b", Outcome: Approved, By: "ada", User: "web", Reason: "fine",
			Input: json.RawMessage(`{"path":"go.sum"}`), Digest: "d9", Scope: "/src/go.sum", Always: true, Grant: "t1-r1-c1-g1",
		},
		ToolDispatched{
			Approved: []content.QuestionKey{{Kind: "filesystem.read", Scope: "/src/go.sum"}},
			Call:     "call_b", Place: content.PlaceOf(3, 2, 1), Attempt: 2, Route: content.Background, Queue: "default",
			Digest: "d9", Input: json.RawMessage(`{"path":"go.sum"}`), Deadline: sampleTime.Add(time.Minute),
			DetachAt: sampleTime.Add(time.Second),
			Because:  []Ground{{By: ByPolicy, Name: "fs_*", Action: RuleAsk, Queue: "default"}, {By: ByApproval, Name: "t3-r2-c1-g1"}},
		},
		ToolAttemptLost{Call: "call_b", Attempt: 1, Reason: "worker gone"},
		DeadLetterSettled{Call: "call_b", Outcome: DeadRetried, By: "ada", User: "web", Reason: "checked by hand"},
		ToolDetached{Call: "call_b", Placeholder: "Tool fs_read_file is now running in the background.", By: "ada", User: "web"},
		ToolProgress{Call: "call_b", Text: "half way", Share: 0.5},
		ToolResultReceived{
			SignedAt:  sampleTime,
			Signature: &content.Signature{Key: "T0uaTKkNbe0ytWwa", Bytes: []byte{1, 2}},
			Turn:      "turn-3", Round: 2, Result: result, Attempt: 2, Duration: 30 * time.Millisecond, Late: true,
			ChangedPaths: []string{"a.go", "b.go"}, Auth: json.RawMessage(`{"provider":"github"}`),
		},
	}
}

func turnSamples() []Event {
	task := sampleTask()
	return []Event{
		InputQueued{Items: sampleItems(), Origin: FromHost, OnBusy: Interrupt, Options: sampleOptions(), Task: &task, TaskName: "task-1", Baseline: "abc", By: "ada", User: "web", Signature: &content.Signature{Key: "T0uaTKkNbe0ytWwa", Bytes: []byte{1, 2}}},
		InputAccepted{Turn: "turn-3", Items: sampleItems(), Origin: FromNotification, Options: sampleOptions()},
		TurnStarted{Turn: "turn-3", Trigger: FromHost, Options: sampleOptions()},
		RoundStarted{Turn: "turn-3", Round: 2, Catalog: "d1"},
		RoundFinished{Turn: "turn-3", Round: 2, TranscriptLen: 11},
		LimitReached{Kind: LimitCost, Limit: 100, Used: 101, Scope: "turn"},
		CancelRequested{Scope: "call", Target: "call_b", Reason: "user_cancelled", By: "ada", User: "web"},
		Warning{Code: "tool_error", Message: "no such file", Call: "call_b"},
		RunFailed{Turn: "turn-3", Code: "401", Class: content.ClassAuth, Message: "bad key"},
		TurnFinished{
			Turn: "turn-3", FinishReason: content.Errored, Rounds: 2, Usage: sampleUsage(), Metadata: sampleMetadata(),
			Error: "auth: bad key",
		},
		StateChanged{Phase: Verifying},
		TaskStarted{Task: "task-1", Spec: sampleTask(), Baseline: "abc123"},
		MemoryRecalled{Items: sampleItems()},
		VerifyStarted{Attempt: 1},
		VerifyFinished{Attempt: 1, Success: true, Status: "failed", Exit: 2, Output: "FAIL", Duration: time.Second, By: "ann", User: "u1"},
		MemoryStored{Error: "disk full"},
		TaskFinished{
			Status: "failed", Verified: true, VerifyStatus: "failed", Attempts: 3, FilesChanged: []string{"a.go"},
			Summary: "tried",
		},
	}
}

func TestEveryKindHasASampleThatShowsEveryField(t *testing.T) {
	t.Parallel()
	byKind := map[Kind]Event{}
	for _, ev := range samples() {
		if _, twice := byKind[KindOf(ev)]; twice {
			t.Errorf("%s: two samples", KindOf(ev))
		}
		byKind[KindOf(ev)] = ev
		if unset := sample.Unset(ev); len(unset) > 0 {
			t.Errorf("%s: the sample leaves fields unset: %v", KindOf(ev), unset)
		}
	}
	for _, k := range Kinds() {
		if byKind[k] == nil {
			t.Errorf("%s: no sample", k)
		}
	}
	if unset := sample.Unset(sampleEntry(Parked{Timer: true, Calls: 1})); !slices.Equal(unset, []string{"events.Entry.Sealing"}) {
		t.Errorf("the sample entry leaves fields unset: %v", unset)
	}
}
