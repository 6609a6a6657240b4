//go:build live

package openai

import (
	"cmp"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/tool"
)

// TestLive calls a real server, according to OPENAI_API_KEY, OPENAI_BASE_URL and
// OPENAI_MODEL.
func TestLive(t *testing.T) {
	key, base := os.Getenv("OPENAI_API_KEY"), os.Getenv("OPENAI_BASE_URL")
	if key == "" && base == "" {
		t.Fatal("set OPENAI_API_KEY, or OPENAI_BASE_URL for a server without a key")
	}
	apis := []API{Chat}
	if base == "" {
		apis = append(apis, Responses)
	}
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			m, err := New(Config{
				Model: cmp.Or(os.Getenv("OPENAI_MODEL"), "gpt-5-mini"), BaseURL: base, APIKey: key, API: api, MaxTokens: 4000,
			})
			if err != nil {
				t.Fatal(err)
			}
			round(t, m)
		})
	}
}

// round makes the model call a tool and report the result.
func round(t *testing.T, m *Model) {
	t.Helper()
	r := modeltest.Ask("What is the secret word of Berlin? Look it up, then answer with the word alone.")
	r.Tools = []tool.Spec{{
		Name: "secret_word", Description: "Looks up the secret word of a city.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}`),
	}}
	reply := ask(t, m, r)
	t.Logf("%q, %+v", shown(reply), reply.Usage)
	if reply.FinishReason != content.ToolCalls || len(reply.Items) != 1 {
		t.Fatalf("reply = %+v, want a call", reply)
	}
	r.Transcript = append(r.Transcript, withIDs(reply)...)
	for _, c := range r.Transcript[1].Calls() {
		r.Transcript = append(r.Transcript, content.NewItem(content.Tool, content.ResultPart(content.NewResult(c.ID, c.Name, content.StatusOK, "marzipan"))))
	}
	reply = ask(t, m, r)
	t.Logf("%q, %+v", shown(reply), reply.Usage)
	if reply.FinishReason != content.Completed || !strings.Contains(strings.ToLower(reply.Items[0].Text()), "marzipan") {
		t.Errorf("reply = %+v, want the word", reply)
	}
}

// withIDs gives the calls of a reply their ids, as a session does.
func withIDs(r model.Reply) []content.Item {
	items := content.DetachItems(r.Items)
	n := 0
	for i := range items {
		for j := range items[i].Parts {
			if c := items[i].Parts[j].Call; c != nil {
				n++
				c.Place = content.PlaceOf(1, 1, n)
				c.ID = content.CallID(c.Place)
			}
		}
	}
	return items
}
