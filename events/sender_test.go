package events

import (
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
)

func TestOnlyVerifiedSendersAreRecorded(t *testing.T) {
	t.Parallel()
	evs := []Event{InputQueued{}, CancelRequested{}, ToolDetached{}, ApprovalResolved{}, DeadLetterSettled{}, ToolsAllowed{}, RunStarted{}, SessionClosed{}}
	ada := content.Sender{Name: "ada", Account: "A", Verified: true}
	for i, ev := range SentBy(evs, ada) {
		if got := ev.(sent).sentBy(nil); KindOf(got) != KindOf(evs[i]) {
			t.Errorf("%s became %s", KindOf(evs[i]), KindOf(got))
		}
		b, err := MarshalEvent(ev)
		if want := `"sender":{"name":"ada","account":"A","verified":true}`; err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s has no sender: %s, %v", KindOf(ev), b, err)
		}
	}
	for _, ev := range SentBy(evs, content.Sender{Name: "ada"}) {
		if b, err := MarshalEvent(ev); err != nil || strings.Contains(string(b), "sender") {
			t.Errorf("%s records a claim: %s, %v", KindOf(ev), b, err)
		}
	}
}

func TestADeciderIsShownWithWhatIsKnown(t *testing.T) {
	t.Parallel()
	for want, ev := range map[string]ApprovalResolved{
		"":                 {Outcome: Expired},
		"ada (claimed)":    {By: "ada"},
		"eve of account A": {By: "eve", Sender: &content.Sender{Name: "eve", Account: "A", Verified: true}},
		"ada":              {By: "ada", Grant: "grant-1"},
	} {
		if got := ev.Decider(); got != want {
			t.Errorf("%+v was decided by %q, want %q", ev, got, want)
		}
	}
}
