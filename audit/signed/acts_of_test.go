package signed

import (
	"reflect"
	"testing"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/frozen"
)

// A node could record an unsigned act, in anyone's name, if actOf did not know it.
func TestEveryEventWithASenderIsAnAct(t *testing.T) {
	t.Parallel()
	acts := map[events.Kind]bool{
		events.KindDriverClaimed:  true, // names who had the session tried again, with a note that is no command
		events.KindSessionDeleted: true, // written by a keeper or a node, without a command
	}
	for _, all := range frozen.Events(t) {
		for _, ev := range all {
			if _, named := reflect.TypeOf(ev).FieldByName("User"); named {
				a := newActs(nil, nil, true)
				acts[events.KindOf(ev)] = acts[events.KindOf(ev)] || a.actOf(ev).what != ""
			}
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
