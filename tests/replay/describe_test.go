package replay

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
)

// describe renders a session. Later releases may add to a session, but must produce the same lines.
func describe(s *loop.State, rep *verdict.Verdict) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("session %s: %d entries, %d events, %d turns", rep.Session, rep.Entries, rep.Events, rep.Turns)
	line("head %d %s, epoch %d, at %s", rep.Head.Seq, rep.Head.Hash, s.Epoch, s.At)
	line("waits for %s; closed %v", loop.Waiting(s), s.Closed)
	u := s.Used
	line("used %d rounds, %d requests, %d tool calls, %d+%d tokens", u.Rounds, u.Requests, u.ToolCalls, u.Usage.InputTokens, u.Usage.OutputTokens)
	for _, q := range s.Queue {
		line("queued from %s: %s", q.Origin, texts(q.Items))
	}
	if t := s.Turn; t != nil {
		line("open %s/%d, stage %s, attempt %d, cancelled %v", t.ID, t.Round, t.Stage, t.Attempt, t.Cancel != nil)
	}
	for _, a := range s.PendingApprovals() {
		line("undecided %s: %s %s", a.ID, a.RequestKind, a.Summary)
	}
	for _, c := range s.Background {
		line("background %s %s: %q, late %v", c.Place, c.ID, c.Status, c.Late)
	}
	if e := s.Last; e != nil {
		line("last %s: %s after %d rounds and %d calls; %s", e.Turn, e.FinishReason, e.Rounds, e.Calls, texts(e.Items))
		line("  metadata %s", asJSON(e.Metadata))
	}
	line("transcript:")
	for i, it := range s.Transcript {
		line("%2d %s %s %s", i+1, it.ID, it.Kind, it.CreatedAt)
		for _, p := range it.Parts {
			line("   %s", part(p))
		}
		if it.FinishReason != "" {
			line("   finish %s", it.FinishReason)
		}
		if len(it.Metadata) > 0 {
			line("   metadata %s", asJSON(it.Metadata))
		}
	}
	return b.String()
}

func part(p content.Part) string {
	switch {
	case p.Call != nil:
		return fmt.Sprintf("call %s at %s: %s %s", p.Call.ID, p.Call.Place, p.Call.Name, p.Call.Input)
	case p.Result != nil:
		return fmt.Sprintf("result of %s: %s %q %s", p.Result.CallID, p.Result.Status, p.Result.Text(), p.Result.Code)
	case p.Kind == content.TextKind:
		return fmt.Sprintf("%q", p.Text)
	}
	return fmt.Sprintf("%s %s", p.Kind, p.Data)
}

func texts(items []content.Item) string {
	var out []string
	for _, it := range items {
		out = append(out, fmt.Sprintf("%q", it.Text()))
	}
	return strings.Join(out, ", ")
}

func asJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func entries(records []journal.Record) []events.Entry {
	var out []events.Entry
	for _, r := range records {
		out = append(out, r.Entry)
	}
	return out
}

func payloads(records []journal.Record) [][]byte {
	var out [][]byte
	for _, r := range records {
		out = append(out, r.Payload)
	}
	return out
}
