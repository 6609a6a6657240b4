package commands

import (
	"encoding/json"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/tool"
)

const (
	sampleTime  = content.Time(1_700_000_000_123_456_789)
	samplePlace = content.Place("t3-r2-c1")
)

// samples returns one command of each kind with all fields set.
func samples() []Command {
	return append(askSamples(), reportSamples()...)
}

func sampleEnvelope(c Command) Envelope {
	return Envelope{ID: "cmd-1", Session: "s-1", By: "ada", At: sampleTime, TraceParent: "00-ab-cd-01", Command: c}
}

func sampleMetadata() content.Metadata { return content.Metadata{}.With("k", "v") }

func sampleUsage() content.Usage {
	return content.Usage{
		InputTokens: 1, OutputTokens: 2, ReasoningTokens: 3, CacheReadTokens: 4, CacheWriteTokens: 5, CostMicros: 6,
		Currency: "EUR",
	}
}

func sampleResult() content.ToolResult {
	r := content.NewResult("call_b", "fs_read_file", content.StatusError, "Tool failed: no")
	r.Code, r.Metadata = "failed", sampleMetadata()
	return r
}

func sampleItems() []content.Item {
	usage, result := sampleUsage(), sampleResult()
	call := content.ToolCall{
		ID: "call_b", Place: samplePlace, Name: "fs_read_file", Input: json.RawMessage(`{}`), ProviderID: "toolu/1",
	}
	return []content.Item{{
		ID: "i1", Kind: content.Assistant, CreatedAt: sampleTime, Usage: &usage, FinishReason: content.ToolCalls,
		Metadata: sampleMetadata(),
		Parts: []content.Part{
			{Kind: content.ReasoningKind, Text: "hm", Reasoning: &content.Reasoning{Signature: []byte{1}, Encrypted: []byte{2}, Redacted: true}},
			{Kind: content.FileKind, Name: "a", Media: &content.Media{Modality: "image", MIME: "image/png", Bytes: []byte{3}, URI: "x:y"}},
			{Kind: content.CustomKind, Data: json.RawMessage(`[1]`), Metadata: sampleMetadata()},
			content.CallPart(call), content.ResultPart(result),
		},
	}}
}

func sampleLimits() events.Limits {
	return events.Limits{
		MaxRounds: 1, Requests: 2, InputTokens: 3, OutputTokens: 4, TotalTokens: 5, ToolCalls: -6, CostMicros: 7,
		WallClock: time.Hour,
	}
}

func sampleCache() content.CacheRequest {
	return content.CacheRequest{
		Mode: "required", Retention: "short", Key: "k", Breakpoints: []content.Breakpoint{{Kind: "part_end", Item: 1, Part: 2}},
	}
}

func sampleConfig() events.Config {
	cache := sampleCache()
	return events.Config{
		Digest: "d0", Model: "demo", ModelData: []byte("x"),
		Agent: &events.AgentRef{Name: "mender", Version: "0123456789abcdef", Local: true, Known: true, Data: json.RawMessage(`{"name":"mender"}`)},
		Catalog: events.Catalog{Digest: "d1", Sources: []events.CatalogSource{
			{Name: "files", Tools: []events.ToolRef{{Name: "fs_read_file", Digest: "d2"}}},
		}},
		Tools: []string{"fs_read_file"}, Rules: []events.Rule{{Tool: "fs_*", Action: events.RuleDeny, Queue: "q"}}, MaxParallel: 2, FailRun: true,
		Routes:   []events.RouteRule{{Tool: "shell_*", Route: content.DetachSoon, DetachAfter: time.Minute}},
		Hooks:    []events.Registration{{Name: "guard", Points: []string{"pre_llm_call"}}},
		Mutators: []events.Registration{{Name: "compact", Points: []string{"before_model"}}},
		Limits:   sampleLimits(), SessionLimits: sampleLimits(),
		Retry: events.Retry{ModelAttempts: 1, ToolAttempts: 2, LostAttempts: 3, Backoff: 4, MaxBackoff: 5, ModelPatience: 6, AskLost: true},
		Cache: &cache, Output: &events.Output{Schema: json.RawMessage(`{}`), Repairs: 1}, ApprovalTTL: time.Minute, NotifyOnly: true,
	}
}

func askSamples() []Command {
	config, limits := sampleConfig(), sampleLimits()
	options := &events.TurnOptions{
		Limits: &limits, Sequential: true,
		Rules:  [][]events.Rule{{{Tool: "fs_*", Action: events.RuleDeny, Queue: "q"}}},
		Routes: []events.RouteRule{{Tool: "sh", Route: content.DetachSoon, DetachAfter: 1}},
	}
	return []Command{
		Claim{Node: "node-a", Token: "t", Lost: []content.Place{samplePlace}, Config: &config, Tickets: true, RetriedBy: "ada", User: "ada", Key: "T0uaTKkNbe0ytWwa", Keys: 3, Checked: 17},
		OpenSession{
			Config: config, Transcript: sampleItems(), Input: sampleItems(), Stepped: true, Metadata: sampleMetadata(),
			Parent: "s-0", Resume: true, From: "s-0@9",
		},
		SubmitInput{Items: sampleItems(), OnBusy: events.Interrupt, Options: options},
		Continue{Turn: "turn-3", Round: 2, Wait: WaitYield},
		ResolveApproval{
			Approval: "t3-r2-c1-g1", Call: "call_b", Approve: true, Reason: "fine", By: "ada", Input: json.RawMessage(`{"a":1}`), Always: true, Shown: "5d41402a",
		},
		AllowTools{Tools: []string{"fs_*"}, By: "ada"},
		SettleDeadLetter{Call: "call_b", Retry: true, MayRepeat: true, Reason: "checked", By: "ada"},
		Cancel{Scope: ScopeCall, Call: "call_b", Reason: "user_cancelled", Turn: "turn-3"},
		DetachCall{Call: "call_b"},
		SetNextTurnCache{Cache: sampleCache()},
		SwitchModel{Model: "scripted:x", Data: []byte("replies: []")},
		StartTask{
			Task: "task-1", Baseline: "abc",
			Spec:    events.TaskSpec{Goal: "green", Verifier: []string{"go", "test"}, VerifierFunc: true, MaxRetries: 2},
			Files:   sampleItems()[0].Parts,
			Options: options,
		},
		Close{Reason: "done"},
		Park{Timer: true, Calls: 2},
	}
}

func reportSamples() []Command {
	call := ModelCall{Turn: "turn-3", Round: 2, Attempt: 1}
	question := Question{
		RequestKind: "filesystem.write", Scope: "/a", Reason: content.SensitivePath, Summary: "write a", Metadata: sampleMetadata(),
		TTL: time.Hour, Asker: events.AskedByTurn,
	}
	checks := []Check{{
		Place: samplePlace, Refusal: &Refusal{Status: content.StatusDenied, Code: "no", Message: "not here"},
		Questions: []Question{question}, Digest: "d3",
	}}
	hooks := []HookAnswer{{
		Point: "post_llm_call", Call: "call_b", Hook: "guard", Action: "terminate", Reason: "secret", FailedOpen: []string{"h"},
		Notes: []events.HookNote{{Hook: "h", Text: "no answer"}},
	}}
	result := sampleResult()
	result.Output = sampleItems()[0].Parts
	return []Command{
		ReportReply{
			ModelCall: call, Items: sampleItems(), FinishReason: content.ToolCalls, Usage: sampleUsage(), Model: "m",
			ResponseID: "r1", Invalid: "no", Checks: checks, Hooks: hooks,
			Warnings: []events.Warning{{Code: "blob_missing", Message: "gone", Call: "call_b"}},
			Routing: []content.Routing{{
				Known: true, Source: "files", Queue: "q", Effects: content.Idempotent, Declared: new(content.ReadOnly), Route: content.Background,
				DetachAfter: 1, Quiet: true, Manual: true, Exclusive: true, Writes: true, Timeout: 2, MaxOutput: 3, Digest: "d4",
			}},
		},
		ReportModelFailed{
			ModelCall: call, Class: content.ClassServer, Code: "500", Message: "oops", RetryAfter: time.Second,
			Usage: sampleUsage(),
		},
		ReportModelStopped{ModelCall: call, Items: sampleItems(), Usage: sampleUsage()},
		ReportResult{
			Signature: &content.Signature{Key: "T0uaTKkNbe0ytWwa", Bytes: []byte{1, 2}},
			SignedAt:  5,
			Place:     samplePlace, Attempt: 2, Queue: "q", Hooks: hooks,
			Outcome: tool.Result{
				Result: result, Duration: time.Second, ChangedPaths: []string{"a"}, Auth: json.RawMessage(`{}`),
				Usage: sampleUsage(), Counts: tool.Counts{Requests: 3, ToolCalls: 2},
			},
		},
		ReportAttemptLost{Place: samplePlace, Attempt: 2, Queue: "q", Reason: "worker gone", Last: true},
		ReportOvertaken{Place: samplePlace, Attempt: 2, Task: 17},
		ReportPreflight{Turn: "turn-3", Round: 2, Checks: checks, Hooks: hooks},
		ReportQuestion{Place: samplePlace, Attempt: 2, N: 1, Question: question, Also: []Question{question}},
		ReportHooks{Turn: "turn-3", Round: 2, N: 1, Answer: hooks[0]},
		ReportMutation{Turn: "turn-3", Round: 2, Finished: events.MutationFinished{
			Turn: "turn-3", Mutator: "compact", Point: "before_model", Dirty: true, Before: "d5", After: "d6",
			Replacement: sampleItems(), OldTokens: 9, NewTokens: 1, Usage: sampleUsage(), Error: "e", Metadata: sampleMetadata(),
		}},
		ReportRecall{Task: "task-1", Items: sampleItems(), Error: "e"},
		ReportVerify{Task: "task-1", Finished: events.VerifyFinished{
			Attempt: 1, Success: true, Status: "passed", Exit: 1, Output: "ok", Duration: time.Second,
			By: "ann", User: "u1",
		}},
		ReportMemory{Task: "task-1", Error: "disk full"},
		ReportTimer{Kind: TimerApproval, ID: "t3-r2-c1-g1"},
	}
}
