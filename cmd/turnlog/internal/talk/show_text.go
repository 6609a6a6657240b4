package talk

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// attempt names a model call.
type attempt struct {
	turn   content.TurnID
	round  int
	number int
}

// textView shows a turn to a person: the text of replies as it comes, tool calls
// as they start and end.
//
// Deltas may come before the entry that says what they belong to, after the reply
// that holds them all, or never. So those of a call that has not begun yet wait,
// those of one that is over are dropped, and what is missing when the reply is
// recorded is printed then.
type textView struct {
	term app.Terminal

	now     attempt
	over    bool                  // its reply is recorded, or it failed
	printed strings.Builder       // of its text
	early   []events.ContentDelta // of one call that has not begun yet
	midline bool                  // out does not stand at the beginning of a line
	fits    bool                  // only an answer that fits a schema is the output
	calls   map[content.CallID]content.ToolCall
	task    *events.TaskStarted // nil: the turn is no task's
}

// earlyMax bounds the deltas that wait; the reply has what was dropped.
const earlyMax = 10_000

func newTextView(t app.Terminal) *textView {
	return &textView{term: t, over: true, calls: make(map[content.CallID]content.ToolCall)}
}

func (v *textView) entry(journal.Record) {}

func (v *textView) event(ev events.Event) { v.show(ev) }

func (v *textView) live(ev events.Event) { v.show(ev) }

// show prints what people want to see. The event comes as any, since a switch over
// events.Event must know all kinds.
func (v *textView) show(ev any) {
	switch ev := ev.(type) {
	case events.ModelCallStarted:
		v.begin(attempt{ev.Turn, ev.Round, ev.Attempt})
	case events.ModelCallFailed:
		v.over = true
		v.retrying(ev)
	case events.ReplyRecorded:
		v.complete(ev)
	case events.ToolCallRequested:
		v.calls[ev.Call.ID] = ev.Call
	case events.ToolDispatched:
		v.toolStarted(ev)
	case events.ToolAttemptLost:
		v.line(v.term.Style.Bad, "✗ %s was lost with its worker", v.calls[ev.Call].Name)
	case events.ToolDetached:
		v.line(v.term.Style.Dim, "… %s goes on in the background", v.calls[ev.Call].Name)
	case events.ToolResultReceived:
		v.toolEnded(ev)
	case events.TaskStarted, events.TurnStarted, events.VerifyStarted, events.VerifyFinished, events.InputAccepted, events.TaskFinished:
		v.phase(ev)
	case events.ContentDelta:
		v.delta(ev)
	case events.ToolProgress:
		if c, ok := v.calls[ev.Call]; ok {
			v.line(v.term.Style.Dim, "  %s: %s", c.Name, v.term.Style.Line(ev.Text))
		}
	}
}

func (v *textView) note(text string) { v.line(v.term.Style.Dim, "%s", text) }

func (v *textView) strict() { v.fits = true }

func (v *textView) ask(text string) {
	v.endLine()
	_, _ = io.WriteString(v.term.Err, text)
}

// begin is the start of a model call. A second attempt says everything again.
func (v *textView) begin(a attempt) {
	v.now, v.over = a, false
	v.printed.Reset()
	v.endLine()
	early := v.early
	v.early = nil
	for _, d := range early {
		v.delta(d)
	}
}

func (v *textView) delta(ev events.ContentDelta) {
	of := attempt{ev.Turn, ev.Round, ev.Attempt}
	if of != v.now {
		v.keep(of, ev)
		return
	}
	if !v.fits && !v.over && ev.Delta.Op == content.AppendPart && ev.Delta.Kind == content.TextKind {
		v.say(ev.Delta.Text)
	}
}

// keep puts a delta aside until its call begins. Calls come one after the other,
// so what waits of another one is over.
func (v *textView) keep(of attempt, ev events.ContentDelta) {
	if len(v.early) > 0 {
		if w := v.early[0]; (attempt{w.Turn, w.Round, w.Attempt}) != of {
			v.early = v.early[:0]
		}
	}
	if len(v.early) < earlyMax {
		v.early = append(v.early, ev)
	}
}

func (v *textView) say(text string) {
	v.printed.WriteString(text)
	v.print(text)
}

func (v *textView) print(text string) {
	if text == "" {
		return
	}
	if v.term.IsOut {
		text = app.Harmless(text)
	}
	_, _ = io.WriteString(v.term.Out, text)
	v.midline = !strings.HasSuffix(text, "\n")
}

// complete prints what of the reply was not shown yet.
func (v *textView) complete(ev events.ReplyRecorded) {
	var all strings.Builder
	for _, it := range ev.Items {
		all.WriteString(it.Text())
	}
	if v.fits {
		v.over = true
		v.answer(ev, all.String())
		return
	}
	shown := v.printed.String()
	switch rest, ok := strings.CutPrefix(all.String(), shown); {
	case ok:
		v.print(rest)
	case ev.Interrupted && strings.HasPrefix(shown, all.String()):
	default:
		v.line(v.term.Style.Dim, "part of the reply was lost on its way; this is the whole:")
		v.print(all.String())
	}
	v.endLine()
	v.over = true
}

// answer prints a reply of a session whose answers have to fit a schema: one that does is
// the output, and what else the model says is shown beside it.
func (v *textView) answer(ev events.ReplyRecorded, text string) {
	calls := slices.ContainsFunc(ev.Items, func(it content.Item) bool { return len(it.Calls()) > 0 })
	if ev.Invalid == "" && !calls && ev.FinishReason == content.Completed {
		v.print(text)
		v.endLine()
		return
	}
	if text != "" {
		v.line(v.term.Style.Dim, "  %s", v.term.Style.Line(text))
	}
	if ev.Invalid != "" {
		v.line(v.term.Style.Bad, "✗ this answer does not fit the agent's schema: %s", v.term.Style.Line(ev.Invalid))
	}
}

// endLine begins a new line, unless one has just begun.
func (v *textView) endLine() {
	if v.midline {
		v.print("\n")
	}
}

func (v *textView) line(style func(string) string, format string, args ...any) {
	v.endLine()
	_, _ = fmt.Fprintln(v.term.Err, style(fmt.Sprintf(format, args...)))
}

func (v *textView) retrying(ev events.ModelCallFailed) {
	if ev.RetryAt == 0 {
		return // the turn's end says why
	}
	wait := time.Until(ev.RetryAt.Std()).Round(100 * time.Millisecond)
	v.line(v.term.Style.Bad, "! model call failed (%s): %s; trying again in %v", ev.Class, v.term.Style.Line(ev.Message), max(wait, 0))
}

func (v *textView) toolStarted(ev events.ToolDispatched) {
	c := v.calls[ev.Call]
	again := ""
	if ev.Attempt > 1 {
		again = fmt.Sprintf(" (attempt %d)", ev.Attempt)
	}
	v.line(v.term.Style.Dim, "→ %s %s%s", c.Name, v.term.Style.Line(string(c.Input)), again)
}

func (v *textView) toolEnded(ev events.ToolResultReceived) {
	r := ev.Result
	name := r.Name
	if name == "" {
		name = v.calls[r.CallID].Name
	}
	delete(v.calls, r.CallID) // what it says of itself from now on comes late
	if r.Status == content.StatusOK {
		v.line(v.term.Style.Dim, "✓ %s %v", name, readable(ev.Duration))
		return
	}
	v.line(v.term.Style.Bad, "✗ %s %s: %s", name, r.Status.Public(), v.term.Style.Line(r.Text()))
}

// readable drops the digits of a duration that nobody reads.
func readable(d time.Duration) time.Duration {
	if d >= time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(100 * time.Microsecond)
}
