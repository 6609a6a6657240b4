package anthropic_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// TestASessionOverTheWire runs a whole turn: three calls with thinking between
// them, their results and an answer. The second request is built from the journal.
func TestASessionOverTheWire(t *testing.T) {
	t.Parallel()
	type file struct {
		Path   string `json:"path"`
		Offset int64  `json:"offset,omitempty"`
	}
	read, err := tool.Func("read_file", "Reads a file.", func(_ context.Context, f file) (string, error) {
		return "contents of " + f.Path, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := tool.Func("list_files", "Lists files.", func(context.Context, struct{}) (string, error) {
		return "a.txt b.txt", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := tool.NewRegistry("test", read, list)
	if err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	s := modeltest.Serve(t, func(modeltest.Asked) modeltest.Answer {
		if calls.Add(1) == 1 {
			return modeltest.Answer{Body: recorded(t, "thinking_calls")}
		}
		return modeltest.Answer{Body: recorded(t, "text")}
	})
	a, err := agent.New(agent.Config{Model: open(t, s), Tools: []tool.Source{tools}, Policy: permission.AllowAll()})
	if err != nil {
		t.Fatal(err)
	}
	d, err := a.Start(t.Context(), agent.SessionConfig{Cache: &content.CacheRequest{Mode: "required"}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := d.RunText(t.Context(), "Compare a.txt and b.txt.")
	if err != nil {
		t.Fatal(err)
	}
	if res.Response != `Grüße & "hello"!` {
		t.Errorf("the response is %q", res.Response)
	}
	asked := s.Asked()
	if len(asked) != 2 {
		t.Fatalf("%d requests were made, want 2", len(asked))
	}
	var body struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(asked[1].Body, &body); err != nil {
		t.Fatal(err)
	}
	if len(body.Messages) != 3 {
		t.Fatalf("the second request has %d messages, want 3: %s", len(body.Messages), asked[1].Body)
	}
	said := `[{"type":"thinking","thinking":"Two files, <both> needed.","signature":"EqQBCgIYAhIM1g/+="},
		{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix/LafPsn4="},
		{"type":"text","text":"I read both."},
		{"type":"tool_use","id":"toolu_A","name":"read_file","input":{"path":"a.txt"}},
		{"type":"tool_use","id":"toolu_B","name":"read_file","input":{"path":"b.txt","offset":9007199254740993}},
		{"type":"thinking","thinking":"","signature":"c2lnbmVkIA=="},
		{"type":"tool_use","id":"toolu_C","name":"list_files","input":{}}]`
	answered := `[{"type":"tool_result","tool_use_id":"toolu_A","content":[{"type":"text","text":"contents of a.txt"}]},
		{"type":"tool_result","tool_use_id":"toolu_B","content":[{"type":"text","text":"contents of b.txt"}]},
		{"type":"tool_result","tool_use_id":"toolu_C","content":[{"type":"text","text":"a.txt b.txt"}],"cache_control":{"type":"ephemeral"}}]`
	for i, want := range map[int]string{1: said, 2: answered} {
		if diff := cmp.Diff(values(t, want), values(t, string(body.Messages[i].Content))); diff != "" {
			t.Errorf("message %d (-want +got):\n%s", i, diff)
		}
	}
}
