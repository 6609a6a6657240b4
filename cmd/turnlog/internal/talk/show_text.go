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

// textView shows a turn as text: replies as they stream in, tool calls as they start and
// end.
//
// Deltas may arrive before the entry that starts their model call, after its reply, or
// never. Those of a call that has not started are kept, those of one that is over are
// dropped, and the missing text is printed when the reply is recorded.
type textView struct {
	term app.Terminal

	now     attempt
	over    bool                  // it has a reply, or failed
	printed strings.Builder       // its text so far
	early   []events.ContentDelta // of one call that has not started
	midline bool                  // the cursor is not at the start of a line
	fits    bool                  // only an answer that matches the schema is output
	calls   map[content.CallID]content.ToolCall
	running map[content.CallID]bool // their start was shown
	task    *events.TaskStarted     // nil: not a task
}

// earlyMax bounds early deltas; the reply has what was dropped.
const earlyMax = 10_000

func newTextView(t app.Terminal) *textView {
	return &textView{term: t, over: true, calls: make(map[content.CallID]content.ToolCall), running: make(map[content.CallID]bool)}
}

func (v *textView) entry(journal.Record) {}

func (v *textView) event(ev events.Event) { v.show(ev) }

func (v *textView) live(ev events.Event) { v.show(ev) }

// show prints an event. It comes as any, since a switch over events.Event must have all
// kinds.
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
		if v.running[ev.Call] { // else it is early or obsolete, and the result has it
			v.line(v.term.Style.Dim, "  %s: %s", v.calls[ev.Call].Name, v.term.Style.Line(ev.Text))
		}
	}
}

func (v *textView) note(text string) { v.line(v.term.Style.Dim, "%s", text) }

func (v *textView) strict() { v.fits = true }

func (v *textView) ask(text string) {
	v.endLine()
	_, _ = io.WriteString(v.term.Err, text)
}

// begin starts a model call. A second attempt repeats everything.
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

// keep keeps a delta until its call starts. Calls are sequential, so deltas of another call
// are obsolete.
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

// complete prints the rest of the reply.
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

// answer prints a reply of a session with an output schema: an answer that matches goes to
// stdout, anything else to stderr.
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

// endLine starts a new line, unless the cursor is at the start of one.
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
		return // the turn's end has the reason
	}
	wait := time.Until(ev.RetryAt.Std()).Round(100 * time.Millisecond)
	v.line(v.term.Style.Bad, "! model call failed (%s): %s; trying again in %v", ev.Class, v.term.Style.Line(ev.Message), max(wait, 0))
}

func (v *textView) toolStarted(ev events.ToolDispatched) {
	c := v.calls[ev.Call]
	v.running[ev.Call] = true
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
	delete(v.calls, r.CallID)
	delete(v.running, r.CallID)
	if r.Status == content.StatusOK {
		v.line(v.term.Style.Dim, "✓ %s %v", name, readable(ev.Duration))
		return
	}
	v.line(v.term.Style.Bad, "✗ %s %s: %s", name, r.Status.Public(), v.term.Style.Line(r.Text()))
}

// readable rounds a duration.
func readable(d time.Duration) time.Duration {
	if d >= time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(100 * time.Microsecond)
}
