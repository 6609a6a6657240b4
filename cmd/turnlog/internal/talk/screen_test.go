package talk

import (
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/clitest"
)

// shown is a screen and what it printed.
type shown struct {
	*screen
	out, err *clitest.Screen
}

func newShown() shown {
	s := shown{out: clitest.NewScreen(), err: clitest.NewScreen()}
	s.screen = newScreen(app.Terminal{Out: s.out, Err: s.err}, "text", make(map[content.CallID]bool))
	return s
}

func calling(round, number int) events.Event {
	return events.ModelCallStarted{Turn: "turn-1", Round: round, Attempt: number}
}

func piece(round, number int, text string) events.Event {
	return events.ContentDelta{Turn: "turn-1", Round: round, Attempt: number, Delta: content.Delta{
		Op: content.AppendPart, Kind: content.TextKind, Text: text,
	}}
}

func reply(round, number int, text string) events.Event {
	return events.ReplyRecorded{Turn: "turn-1", Round: round, Attempt: number, Items: []content.Item{content.AssistantText(text)}}
}

func TestScreenPrintsDeltasAsTheyComeAndTheRestOfTheReply(t *testing.T) {
	t.Parallel()
	type step struct {
		event events.Event
		out   string // all that is on stdout after it
	}
	for name, row := range map[string]struct {
		steps []step
		err   string // a part of what is on stderr at the end
	}{
		"a reply in two deltas": {steps: []step{
			{calling(1, 1), ""},
			{piece(1, 1, "Good "), "Good "},
			{piece(1, 1, "morning"), "Good morning"},
			{reply(1, 1, "Good morning"), "Good morning\n"},
		}},
		"a delta before its call waits for it": {steps: []step{
			{calling(1, 1), ""},
			{piece(1, 1, "One."), "One."},
			{piece(2, 1, "Two"), "One."},
			{reply(1, 1, "One."), "One.\n"},
			{calling(2, 1), "One.\nTwo"},
			{reply(2, 1, "Two."), "One.\nTwo.\n"},
		}},
		"a delta after its reply is dropped": {steps: []step{
			{calling(1, 1), ""},
			{reply(1, 1, "All of it."), "All of it.\n"},
			{piece(1, 1, "All of it."), "All of it.\n"},
			{calling(2, 1), "All of it.\n"},
			{piece(1, 1, "All of it."), "All of it.\n"},
			{reply(2, 1, "More."), "All of it.\nMore.\n"},
		}},
		"a lost delta: the whole reply again": {err: "lost in transit", steps: []step{
			{calling(1, 1), ""},
			{piece(1, 1, "Good "), "Good "},
			{piece(1, 1, "night"), "Good night"},
			{reply(1, 1, "Good and quiet night"), "Good night\nGood and quiet night\n"},
		}},
		"a second attempt begins again": {err: "(network): cut off; retrying", steps: []step{
			{calling(1, 1), ""},
			{piece(1, 1, "Good mor"), "Good mor"},
			{events.ModelCallFailed{
				Turn: "turn-1", Round: 1, Attempt: 1, Class: content.ClassNetwork, Message: "cut off", RetryAt: content.TimeOf(time.Now()),
			}, "Good mor\n"},
			{piece(1, 1, "ning"), "Good mor\n"},
			{calling(1, 2), "Good mor\n[the reply starts again]\n"},
			{piece(1, 2, "Good evening"), "Good mor\n[the reply starts again]\nGood evening"},
			{reply(1, 2, "Good evening"), "Good mor\n[the reply starts again]\nGood evening\n"},
		}},
		"an interrupted reply is not repeated": {steps: []step{
			{calling(1, 1), ""},
			{piece(1, 1, "Good morning"), "Good morning"},
			{events.ReplyRecorded{
				Turn: "turn-1", Round: 1, Attempt: 1, Interrupted: true, Items: []content.Item{content.AssistantText("Good")},
			}, "Good morning\n"},
		}},
	} {
		s := newShown()
		for i, step := range row.steps {
			s.event(step.event)
			if s.out.String() != step.out {
				t.Errorf("%s: after event %d, out = %q, want %q", name, i, s.out, step.out)
			}
		}
		if got := s.err.String(); !strings.Contains(got, row.err) || row.err == "" && got != "" {
			t.Errorf("%s: err = %q, want %q", name, got, row.err)
		}
	}
}

// A worker can send deltas of a call that will never start, each as long as a message.
func TestTheScreenKeepsLittleOfACallThatHasNotStarted(t *testing.T) {
	t.Parallel()
	s, text := newShown(), strings.Repeat("a", earlyMax)
	for range 3 {
		s.event(piece(2, 1, text))
	}
	s.event(calling(2, 1))
	if got := len(s.out.String()); got != earlyMax {
		t.Errorf("%d bytes were kept, want %d", got, earlyMax)
	}
	s.event(reply(2, 1, text+text+text))
	if got := s.out.String(); got != text+text+text+"\n" {
		t.Errorf("%d bytes are shown, want %d", len(got), 3*len(text)+1)
	}
}

func TestToolLinesStartOnTheirOwnLine(t *testing.T) {
	t.Parallel()
	s := newShown()
	both := clitest.NewScreen()
	s.Out, s.Err = both, both
	s.event(calling(1, 1))
	s.event(piece(1, 1, "Wait"))
	s.event(reply(1, 1, "Wait"))
	s.event(events.ToolCallRequested{Call: content.ToolCall{ID: "c", Name: "sleep", Input: []byte("{\n \"s\": 1}")}})
	s.event(events.ToolProgress{Call: "c", Text: "early"})
	s.event(events.ToolDispatched{Call: "c", Attempt: 2})
	s.event(events.ToolProgress{Call: "c", Text: "half\nway"})
	s.event(events.ToolProgress{Call: "unknown", Text: "of another turn"})
	s.event(events.ToolAttemptLost{Call: "c", Reason: "no\nworker"})
	s.event(events.ToolDetached{Call: "c"})
	s.event(events.ToolResultReceived{Result: content.NewResult("c", "", content.StatusOK, "done"), Duration: 1234567})
	want := "Wait\n→ sleep { \"s\": 1} (attempt 2)\n  sleep: half way\n✗ sleep was lost: no worker\n" +
		"… sleep continues in the background\n✓ sleep 1.2ms\n"
	if both.String() != want {
		t.Errorf("printed %q, want %q", both, want)
	}
}

func TestControlCharactersAreEscapedOnATerminal(t *testing.T) {
	t.Parallel()
	s := newShown()
	s.IsOut = true
	s.Terminal = s.Escaped()
	s.event(calling(1, 1))
	s.event(reply(1, 1, "a\x1b[2Jb\tc\r\u009bd"))
	s.event(events.ToolResultReceived{Result: content.NewResult("c", "x", content.StatusError, "bad\x07 thing")})
	if s.out.String() != "a\\x1b[2Jb\tc\\r\\u009bd\n" {
		t.Errorf("out = %q", s.out)
	}
	if s.err.String() != "✗ x error: bad\\a thing\n" {
		t.Errorf("err = %q", s.err)
	}
}

func TestASecondResultOfACallIsNotShown(t *testing.T) {
	t.Parallel()
	first, later := newShown(), newShown()
	first.event(events.ToolResultReceived{Result: content.NewResult("c", "shell", content.StatusCancelled, "stopped")})
	later.ended = first.ended
	later.event(events.ToolResultReceived{Result: content.NewResult("c", "shell", content.StatusOK, "done"), Late: true})
	later.event(events.ToolResultReceived{Result: content.NewResult("d", "sleep", content.StatusOK, "done"), Late: true})
	if got := later.err.String(); got != "✓ sleep 0s\n" {
		t.Errorf("the next turn shows %q", got)
	}
}
