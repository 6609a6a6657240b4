//go:build live

package gemini

import (
	"os"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model/modeltest"
)

// TestLive calls the provider: go test -tags live ./model/gemini -run TestLive
func TestLive(t *testing.T) {
	key := os.Getenv("GEMINI_API_KEY")
	if key == "" {
		t.Fatal("GEMINI_API_KEY is not set")
	}
	m, err := New(Config{Model: "gemini-flash-latest", APIKey: key, MaxTokens: 1000})
	if err != nil {
		t.Fatal(err)
	}
	r := modeltest.Ask("Read the file a.txt.")
	r.Tools = specs()
	reply, err := m.Call(t.Context(), r, func(d content.Delta) { t.Logf("%+v", d) })
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", reply)
	if reply.FinishReason != content.ToolCalls || reply.Usage.InputTokens == 0 {
		t.Errorf("the reply is %+v, want a call", reply)
	}
}
