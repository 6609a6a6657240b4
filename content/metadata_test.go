package content

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMetadataIsAlwaysSorted(t *testing.T) {
	t.Parallel()
	want := Metadata{{"a", json.RawMessage(`1`)}, {"b", json.RawMessage(`"x"`)}, {"c", json.RawMessage(`{"k":[]}`)}}
	made := Metadata{}.With("c", map[string][]int{"k": {}}).With("a", 2).With("b", "x").With("a", 1)
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("With: -want +got\n%s", diff)
	}
	var read Metadata
	if err := json.Unmarshal([]byte(`{"c":{"k":[]},"b":"x","a":1}`), &read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Errorf("UnmarshalJSON: -want +got\n%s", diff)
	}
	text, err := json.Marshal(want)
	if err != nil || string(text) != `{"a":1,"b":"x","c":{"k":[]}}` {
		t.Errorf("MarshalJSON = %s, %v", text, err)
	}
}

func TestWithLeavesItsReceiverAlone(t *testing.T) {
	t.Parallel()
	before := Metadata{}.With("a", 1).With("c", 3)
	kept := Metadata{}.With("a", 1).With("c", 3)
	_ = before.With("a", 2)
	_ = before.With("b", 2)
	if diff := cmp.Diff(kept, before); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestMetadataReturnsItsValues(t *testing.T) {
	t.Parallel()
	m := Metadata{}.With("n", 1).With("s", "text").With("bad", func() {})
	if raw, ok := m.Get("n"); !ok || string(raw) != "1" {
		t.Errorf("Get(n) = %s, %v", raw, ok)
	}
	if _, ok := m.Get("none"); ok {
		t.Error("Get found a missing key")
	}
	for key, want := range map[string]string{"s": "text", "n": "", "none": ""} {
		if got := m.Text(key); got != want {
			t.Errorf("Text(%s) = %q, want %q", key, got, want)
		}
	}
	if got := m.Text("bad"); got == "" {
		t.Error("a value without a JSON form is lost")
	}
}

func TestOddMetadataIsStillJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(Metadata{{Key: `a"<b`}, {Key: "z", Value: json.RawMessage("true")}})
	if err != nil || string(text) != `{"a\"\u003cb":null,"z":true}` {
		t.Errorf("MarshalJSON = %s, %v", text, err)
	}
	if text, err := json.Marshal(Metadata(nil)); err != nil || string(text) != "{}" {
		t.Errorf("no metadata is %s, %v", text, err)
	}
	var m Metadata
	if err := json.Unmarshal([]byte(`[1]`), &m); err == nil {
		t.Error("a list was read as metadata")
	}
}

func TestOnlyTurnlogSetsReservedKeys(t *testing.T) {
	t.Parallel()
	m := Metadata{}.With("mine", 1).With(MetaInterrupted, true).With(MetaWithheld, true)
	if diff := cmp.Diff(Metadata{}.With("mine", 1), m.WithoutReserved()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if len(m) != 3 {
		t.Error("WithoutReserved changed its receiver")
	}
	plain := Metadata{}.With("mine", 1)
	if diff := cmp.Diff(plain, plain.WithoutReserved()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
