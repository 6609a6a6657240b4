package openai

import (
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
)

func TestCallsHaveUniqueIDsOnTheWire(t *testing.T) {
	t.Parallel()
	const host = "127.0.0.1:1"
	long := strings.Repeat("x", maxWireID+1)
	var parts []content.Part
	for i, wire := range []string{"call_0", "call_0", "", long, "elsewhere"} {
		place := content.PlaceOf(1, 1, i+1)
		p := content.CallPart(content.ToolCall{ID: content.CallID(place), Place: place, ProviderID: wire})
		if wire != "elsewhere" {
			p = own(host, p, note{})
		}
		parts = append(parts, p)
	}
	items := []content.Item{content.NewItem(content.Assistant, parts...)}
	for api, want := range map[API][]string{
		Responses: {"call_0", "t1-r1-c2", "t1-r1-c3", "t1-r1-c4", "elsewhere"},
		Chat:      {"call_0", "", "", "", ""}, // nine letters and digits
	} {
		m, err := New(Config{Model: "m", BaseURL: "http://" + host + "/v1", API: api})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for i, id := range m.wireIDs(items).in(parts) {
			switch w := want[i]; {
			case w != "" && id != w:
				t.Errorf("%s: the id of call %d is %q, want %q", api, i+1, id, w)
			case w == "" && (len(id) != 9 || strings.ContainsFunc(id, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) })):
				t.Errorf("%s: the id of call %d is %q, want nine letters and digits", api, i+1, id)
			case seen[id]:
				t.Errorf("%s: the id %q names two calls", api, id)
			}
			seen[id] = true
		}
	}
}

// in returns the ids of the calls in order.
func (w wireIDs) in(parts []content.Part) []string {
	var ids []string
	for _, p := range parts {
		ids = append(ids, w[p.Call.ID])
	}
	return ids
}

func TestReasoningIsReturnedIfItIsReadable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		item string
		open bool
		want string
	}{
		{`{"id":"r","type":"reasoning","summary":[],"encrypted_content":"e","status":"completed"}`, false, `{"id":"r","type":"reasoning","summary":[],"encrypted_content":"e"}`},
		{`{"type":"reasoning","encrypted_content":"e"}`, false, `{"type":"reasoning","summary":[],"encrypted_content":"e"}`},
		{`{"id":"r","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"so"}],"encrypted_content":null}`, true, `{"id":"r","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"so"}]}`},
		{`{"id":"r","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"so"}]}`, false, ``},
		{`{"id":"r","type":"reasoning","summary":[],"content":[]}`, true, ``},
		{`{"id":"r","type":"message","encrypted_content":"e"}`, true, ``},
		{`[{"type":"reasoning.text"}]`, true, ``},
		{``, true, ``},
	} {
		got, ok := returnable([]byte(tt.item), tt.open)
		if string(got) != tt.want || ok != (tt.want != "") {
			t.Errorf("returnable(%s, %t) = %s, %t, want %s", tt.item, tt.open, got, ok, tt.want)
		}
	}
}
