//go:build live

package anthropic_test

import (
	"cmp"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/anthropic"
	"github.com/turnlog/turnlog/tool"
)

// TestLive gets a tool call from the real API and sends the result. It costs a few
// hundred tokens. The key is ANTHROPIC_API_KEY, the model ANTHROPIC_MODEL.
func TestLive(t *testing.T) {
	key := os.Getenv("ANTHROPIC_API_KEY")
	if key == "" {
		t.Fatal("set ANTHROPIC_API_KEY")
	}
	m, err := anthropic.New(anthropic.Config{
		Model: cmp.Or(os.Getenv("ANTHROPIC_MODEL"), "claude-haiku-4-5"), APIKey: key,
		MaxTokens: 4000, Thinking: "1024", Cache: "short",
	})
	if err != nil {
		t.Fatal(err)
	}
	r := model.Request{
		Transcript: []content.Item{
			content.SystemText("Answer in one short sentence."),
			content.UserText("What does the tool weather say of Oslo?"),
		},
		Tools: []tool.Spec{{
			Name: "weather", Description: "The weather of a city.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`),
		}},
	}
	first := ask(t, m, r)
	if first.FinishReason != content.ToolCalls {
		t.Fatalf("the first reply ends with %q: %+v", first.FinishReason, first.Items)
	}
	r.Transcript = append(r.Transcript, first.Items...)
	for i, p := range first.Items[0].Parts {
		if c := p.Call; c != nil {
			first.Items[0].Parts[i].Call.ID = content.CallID(c.ProviderID)
			r.Transcript = append(r.Transcript, content.NewItem(content.Tool,
				content.ResultPart(content.NewResult(c.ID, c.Name, content.StatusOK, "17 degrees and hail"))))
		}
	}
	last := ask(t, m, r)
	if text := last.Items[0].Text(); last.FinishReason != content.Completed || !strings.Contains(text, "17") {
		t.Errorf("the last reply ends with %q: %q", last.FinishReason, text)
	}
}

func ask(t *testing.T, m *anthropic.Model, r model.Request) model.Reply {
	t.Helper()
	reply, err := m.Call(t.Context(), r, func(content.Delta) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s %s: %+v", reply.Model, reply.FinishReason, reply.Usage)
	return reply
}
