package events

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
)

func TestAnEventIsOneJSONObjectWithItsKindFirst(t *testing.T) {
	t.Parallel()
	for _, ev := range samples() {
		raw, err := MarshalEvent(ev)
		if err != nil {
			t.Fatalf("%s: %v", KindOf(ev), err)
		}
		if !json.Valid(raw) || !strings.HasPrefix(string(raw), `{"kind":"`+string(KindOf(ev))+`"`) {
			t.Errorf("%s is shown as %s", KindOf(ev), raw)
		}
	}
	raw, err := MarshalEvent(VerifyFinished{Attempt: 1, Status: "passed"})
	if want := `{"kind":"verify_finished","attempt":1,"success":false,"status":"passed","exit":0}`; err != nil || string(raw) != want {
		t.Errorf("MarshalEvent = %s, %v\nwant %s", raw, err, want)
	}
	if raw, err := MarshalEvent(Parked{}); err != nil || string(raw) != `{"kind":"parked"}` {
		t.Errorf("MarshalEvent(Parked) = %s, %v", raw, err)
	}
}

func TestNoEventHasAFieldThatHidesItsKind(t *testing.T) {
	t.Parallel()
	for _, ev := range samples() {
		for f := range reflect.TypeOf(ev).Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == "kind" || name == "" {
				t.Errorf("%T.%s is shown as %q", ev, f.Name, name)
			}
		}
	}
}

func TestValuesThatJSONCannotHoldAreReplaced(t *testing.T) {
	t.Parallel()
	call := content.ToolCall{ID: "c", Name: "t", Input: json.RawMessage(`{"path":`)}
	for want, ev := range map[string]Event{
		`{"kind":"tool_progress","call":"c"}`: ToolProgress{Call: "c", Share: math.NaN()},
		`{"kind":"tool_call_requested","turn":"turn-1","round":1,"call":{"id":"c","name":"t","input":"{\"path\":"},"routing":{"known":false}}`: ToolCallRequested{Turn: "turn-1", Round: 1, Call: call},
		`{"kind":"memory_recalled","items":[{"kind":"assistant","parts":[` +
			`{"kind":"media","media":{"bytes":"AQI="}},{"kind":"tool_call","call":{"id":"c","name":"t","input":"{\"path\":"},"metadata":{"a":"]"}}]},{"kind":"user","parts":null}]}`: MemoryRecalled{Items: []content.Item{
			content.NewItem(content.Assistant,
				content.Part{Kind: content.MediaKind, Media: &content.Media{Bytes: []byte{1, 2}}},
				content.Part{Kind: content.ToolCallKind, Call: &call, Metadata: content.Metadata{{Key: "a", Value: json.RawMessage("]")}}}),
			{Kind: content.User},
		}},
	} {
		raw, err := MarshalEvent(ev)
		if err != nil || string(raw) != want {
			t.Errorf("MarshalEvent = %s, %v\nwant %s", raw, err, want)
		}
	}
	if string(call.Input) != `{"path":` {
		t.Error("showing an event changed it")
	}
}
