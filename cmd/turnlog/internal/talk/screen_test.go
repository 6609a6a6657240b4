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
	s.screen = newScreen(app.Terminal{Out: s.out, Err: s.err}, "text")
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

func TestDeltasMakeTheReplyComeSooner(t *testing.T) {
	t.Parallel()
	s := newShown()
	s.event(calling(1, 1))
	s.event(piece(1, 1, "Good "))
	if s.out.String() != "Good " {
		t.Errorf("out = %q", s.out)
	}
	s.event(piece(1, 1, "morning"))
	s.event(reply(1, 1, "Good morning"))
	if s.out.String() != "Good morning\n" || s.err.String() != "" {
		t.Errorf("out = %q, err = %q", s.out, s.err)
	}
}

func TestDeltasThatComeEarlyWaitForTheirCall(t *testing.T) {
	t.Parallel()
	s := newShown()
	s.event(calling(1, 1))
	s.event(piece(1, 1, "One."))
	s.event(piece(2, 1, "Two"))
	if s.out.String() != "One." {
		t.Errorf("before the second call, out = %q", s.out)
	}
	s.event(reply(1, 1, "One."))
	s.event(calling(2, 1))
	if s.out.String() != "One.\nTwo" {
		t.Errorf("in the second call, out = %q", s.out)
	}
	s.event(reply(2, 1, "Two."))
	if s.out.String() != "One.\nTwo.\n" {
		t.Errorf("out = %q", s.out)
	}
}

func TestDeltasThatComeLateAreDropped(t *testing.T) {
	t.Parallel()
	s := newShown()
	s.event(calling(1, 1))
	s.event(reply(1, 1, "All of it."))
	s.event(piece(1, 1, "All of it."))
	s.event(calling(2, 1))
	s.event(piece(1, 1, "All of it."))
	s.event(reply(2, 1, "More."))
	if s.out.String() != "All of it.\nMore.\n" {
		t.Errorf("out = %q", s.out)
	}
}

func TestWhatDeltasMissedIsPrinted(t *testing.T) {
	t.Parallel()
	s := newShown()
	s.event(calling(1, 1))
	s.event(piece(1, 1, "Good "))
	s.event(piece(1, 1, "night"))
	s.event(reply(1, 1, "Good and quiet night"))
	if s.out.String() != "Good night\nGood and quiet night\n" || !strings.Contains(s.err.String(), "lost on its way") {
		t.Errorf("out = %q, err = %q", s.out, s.err)
	}
}

func TestASecondAttemptSaysEverythingAgain(t *testing.T) {
	t.Parallel()
	s := newShown()
	s.event(calling(1, 1))
	s.event(piece(1, 1, "Good mor"))
	s.event(events.ModelCallFailed{
		Turn: "turn-1", Round: 1, Attempt: 1, Class: content.ClassNetwork, Message: "cut off", RetryAt: content.TimeOf(time.Now()),
	})
	s.event(piece(1, 1, "ning"))
	s.event(calling(1, 2))
	s.event(piece(1, 2, "Good evening"))
	s.event(reply(1, 2, "Good evening"))
	if s.out.String() != "Good mor\nGood evening\n" || !strings.Contains(s.err.String(), "(network): cut off; trying again") {
		t.Errorf("out = %q, err = %q", s.out, s.err)
	}
}

func TestAnInterruptedReplyIsNotSaidTwice(t *testing.T) {
	t.Parallel()
	s := newShown()
	s.event(calling(1, 1))
	s.event(piece(1, 1, "Good morning"))
	s.event(events.ReplyRecorded{
		Turn: "turn-1", Round: 1, Attempt: 1, Interrupted: true, Items: []content.Item{content.AssistantText("Good")},
	})
	if s.out.String() != "Good morning\n" || s.err.String() != "" {
		t.Errorf("out = %q, err = %q", s.out, s.err)
	}
}

func TestToolLinesDoNotBreakIntoText(t *testing.T) {
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
	s.event(events.ToolAttemptLost{Call: "c"})
	s.event(events.ToolDetached{Call: "c"})
	s.event(events.ToolResultReceived{Result: content.NewResult("c", "", content.StatusOK, "done"), Duration: 1234567})
	want := "Wait\n→ sleep { \"s\": 1} (attempt 2)\n  sleep: half way\n✗ sleep was lost with its worker\n" +
		"… sleep goes on in the background\n✓ sleep 1.2ms\n"
	if both.String() != want {
		t.Errorf("printed %q, want %q", both, want)
	}
}

func TestATerminalIsSentNoCommands(t *testing.T) {
	t.Parallel()
	s := newShown()
	s.IsOut = true
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
