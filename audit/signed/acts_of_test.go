package signed

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/events"
)

// samples returns events of all kinds, from the frozen bytes of package events.
func samples(t *testing.T) (out []events.Event) {
	t.Helper()
	files, err := filepath.Glob("../../events/testdata/*.golden")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d golden files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		coded, _, _ := strings.Cut(string(text), "\n\n")
		payload, err := base64.StdEncoding.DecodeString(coded)
		if err != nil {
			t.Fatal(err)
		}
		e, err := events.Decode(payload)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Events...)
	}
	return out
}

// A node could record an act that nobody signed, in anyone's name, if actOf did not know it.
func TestEveryEventWithASenderIsAnAct(t *testing.T) {
	t.Parallel()
	acts := map[events.Kind]bool{
		events.KindDriverClaimed:  true, // names who had the session tried again, with a note that is no command
		events.KindSessionDeleted: true, // written by a keeper or a node, without a command
	}
	for _, ev := range samples(t) {
		if _, named := reflect.TypeOf(ev).FieldByName("User"); named {
			a := newActs(nil, nil, true)
			acts[events.KindOf(ev)] = acts[events.KindOf(ev)] || a.actOf(ev).what != ""
		}
	}
	for kind, known := range acts {
		if !known {
			t.Errorf("%s has a sender: actOf in acts_of.go needs a case that compares it with the command that its sender signed", kind)
		}
	}
	if !acts[events.KindInputQueued] {
		t.Error("no sample has a sender")
	}
}
