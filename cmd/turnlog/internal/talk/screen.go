package talk

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/turnlog/turnlog/audit/render"
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

// screen shows a turn while it is followed: replies as they stream in, tool calls as they
// start and end. With JSON output it shows only notes and questions, and with jsonl
// also every entry. It is not safe for concurrent use.
//
// Deltas may arrive before the entry that starts their model call, after its reply, or
// never. The screen keeps deltas of a call that has not started, drops deltas of a call
// that has ended, and prints the missing text when the reply is recorded.
type screen struct {
	app.Terminal

	format string // text, json or jsonl
	fits   bool   // print only an answer that matches the session's schema

	now     attempt
	over    bool            // the model call has a reply, or failed
	printed strings.Builder // its text so far
	early   strings.Builder // the text of earlyOf so far
	earlyOf attempt         // a call that has not started
	midline bool            // the output does not end in a line break
	asking  bool            // a question has no answer yet
	calls   map[content.CallID]content.ToolCall
	running map[content.CallID]bool // calls whose start was shown
	ended   map[content.CallID]bool // calls whose result was shown, also by earlier screens
	task    *events.TaskStarted     // nil: not a task
}

// earlyMax bounds the bytes of early. The recorded reply has what was dropped.
const earlyMax = 1 << 20

func newScreen(t app.Terminal, format string, ended map[content.CallID]bool) *screen {
	return &screen{
		Terminal: t, format: format, over: true, ended: ended,
		calls: make(map[content.CallID]content.ToolCall), running: make(map[content.CallID]bool),
	}
}

// entry prints the events of a new entry, one per line.
func (v *screen) entry(rec journal.Record) {
	if v.format != "jsonl" {
		return
	}
	for _, ev := range rec.Entry.Events {
		raw, err := events.MarshalEvent(ev)
		if err == nil {
			err = app.WriteJSON(v.Out, struct {
				Seq   uint64          `json:"seq"`
				At    content.Time    `json:"at"`
				Cause string          `json:"cause"`
				Event json.RawMessage `json:"event"`
			}{rec.Seq, rec.Entry.At, rec.Entry.Cause, raw})
		}
		if err != nil {
			v.line(v.Style.Bad, "print entry %d: %v", rec.Seq, err)
		}
	}
}

// event shows an event of the turn, or a live event, which may belong to another turn and
// may come early or late. Its type is any, since a switch over events.Event must have all
// kinds.
func (v *screen) event(ev any) {
	if ev, ok := ev.(events.ToolCallRequested); ok {
		v.calls[ev.Call.ID] = ev.Call // questions name it in every format
	}
	if v.format != "text" {
		return
	}
	switch ev := ev.(type) {
	case events.ContentDelta:
		v.delta(ev)
	case events.ModelCallStarted:
		v.begin(attempt{ev.Turn, ev.Round, ev.Attempt})
	case events.ModelCallFailed:
		v.over = true
		v.retrying(ev)
	case events.ReplyRecorded:
		v.complete(ev)
	case events.ToolDispatched:
		v.toolStarted(ev)
	case events.ToolProgress:
		if v.running[ev.Call] { // otherwise it is early or obsolete, and the result includes it
			v.note("  %s: %s", v.calls[ev.Call].Name, oneLine(ev.Text))
		}
	case events.Warning:
		if ev.Code == events.WarnCostUnknown { // other warnings are shown where they occur
			v.line(v.Style.Bad, "! %s", ev.Message)
		}
	case events.ToolAttemptLost:
		v.line(v.Style.Bad, "✗ %s was lost: %s", v.calls[ev.Call].Name, cmp.Or(oneLine(ev.Reason), "its worker was lost"))
	case events.ToolDetached:
		v.note("… %s continues in the background", v.calls[ev.Call].Name)
	case events.ToolResultReceived:
		v.toolEnded(ev)
	case events.TaskStarted, events.TurnStarted, events.InputAccepted, events.VerifyStarted, events.VerifyFinished, events.TaskFinished:
		v.phase(ev)
	}
}

// phase shows the phase of a task. It shows nothing for other turns.
func (v *screen) phase(ev any) {
	switch ev := ev.(type) {
	case events.TaskStarted:
		v.task = &ev
		v.note("planning")
	case events.TurnStarted:
		if v.task != nil {
			v.note("executing")
		}
	case events.InputAccepted:
		if v.task != nil && ev.Origin == events.FromVerifier {
			v.note("executing")
		}
	case events.VerifyStarted:
		of := ""
		if v.task != nil {
			of = fmt.Sprintf(" of %d", v.task.Spec.MaxRetries+1)
		}
		v.note("verifying, attempt %d%s", ev.Attempt, of)
	case events.VerifyFinished:
		v.verified(ev)
	case events.TaskFinished:
		v.task = nil
	}
}

func (v *screen) verified(ev events.VerifyFinished) {
	switch ev.Status {
	case "passed":
		v.note("✓ verifier passed %v", readable(ev.Duration))
	case "failed":
		v.line(v.Style.Bad, "✗ verifier failed %v", readable(ev.Duration))
		for line := range strings.Lines(ev.Output) {
			v.note("  %s", oneLine(line))
		}
	default:
		return
	}
	if ev.Success {
		v.note("reporting")
	}
}

// note shows a hint to the user, or a step of the turn.
func (v *screen) note(format string, args ...any) { v.line(v.Style.Dim, format, args...) }

// show writes lines that are safe for a terminal.
func (v *screen) show(lines string) {
	v.endLine()
	_, _ = io.WriteString(v.Err, lines)
}

// ask asks a question. The answer is the next line.
func (v *screen) ask(text string) {
	v.endLine()
	_, _ = io.WriteString(cmp.Or(v.Questions, v.Err), text)
	v.asking = true
}

// startsAgain separates a reply from what a failed attempt has printed.
const startsAgain = "[the reply starts again]\n"

// begin starts a model call. A second attempt prints the whole reply again.
func (v *screen) begin(a attempt) {
	v.endLine()
	if v.now.turn == a.turn && v.now.round == a.round && v.printed.Len() > 0 {
		again := startsAgain
		if v.Questions != nil { // it draws Markdown: this is a paragraph
			again = "\n" + again + "\n"
		}
		v.print(again) // also into a pipe, which already has the start of the reply
	}
	v.now, v.over = a, false
	v.printed.Reset()
	if v.earlyOf == a {
		v.say(v.early.String())
		v.early.Reset()
	}
}

func (v *screen) delta(ev events.ContentDelta) {
	if v.fits || ev.Delta.Op != content.AppendPart || ev.Delta.Kind != content.TextKind {
		return
	}
	of := attempt{ev.Turn, ev.Round, ev.Attempt}
	switch {
	case of != v.now:
		v.keep(of, ev.Delta.Text)
	case !v.over:
		v.say(ev.Delta.Text)
	}
}

// keep keeps text until its call starts. Calls are sequential, so text of another call is
// obsolete.
func (v *screen) keep(of attempt, text string) {
	if v.earlyOf != of {
		v.early.Reset()
	}
	v.earlyOf = of
	v.early.WriteString(text[:min(len(text), earlyMax-v.early.Len())])
}

func (v *screen) say(text string) {
	v.printed.WriteString(text)
	v.print(text)
}

func (v *screen) print(text string) {
	if text == "" {
		return
	}
	_, _ = io.WriteString(v.Out, text)
	v.midline = !strings.HasSuffix(text, "\n")
}

// complete prints the rest of the reply.
func (v *screen) complete(ev events.ReplyRecorded) {
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
		v.note("part of the reply was lost in transit; the full reply is:")
		v.print(all.String())
	}
	v.endLine()
	v.over = true
}

// answer prints a reply of a session with an output schema: an answer that matches goes to
// stdout, anything else to stderr.
func (v *screen) answer(ev events.ReplyRecorded, text string) {
	calls := slices.ContainsFunc(ev.Items, func(it content.Item) bool { return len(it.Calls()) > 0 })
	if ev.Invalid == "" && !calls && ev.FinishReason == content.Completed {
		v.print(text)
		v.endLine()
		return
	}
	if text != "" {
		v.note("  %s", oneLine(text))
	}
	if ev.Invalid != "" {
		v.line(v.Style.Bad, "✗ this answer does not fit the agent's schema: %s", oneLine(ev.Invalid))
	}
}

// endLine starts a new line, unless the cursor is at the start of one.
func (v *screen) endLine() {
	if v.midline {
		v.print("\n")
	}
	if v.asking {
		v.asking = false
		_, _ = io.WriteString(v.Err, "\n")
	}
}

// line writes a line. Names and texts in it may come from models and tools.
func (v *screen) line(style func(string) string, format string, args ...any) {
	v.endLine()
	_, _ = fmt.Fprintln(v.Err, style(render.Safe(fmt.Sprintf(format, args...))))
}

func (v *screen) retrying(ev events.ModelCallFailed) {
	if ev.RetryAt == 0 {
		return // the turn's end has the reason
	}
	wait := time.Until(ev.RetryAt.Std()).Round(100 * time.Millisecond)
	until := ""
	if ev.RetryUntil != 0 {
		until = ", until " + ev.RetryUntil.Std().Local().Format(time.TimeOnly)
	}
	v.line(v.Style.Bad, "! model call failed (%s): %s; retrying in %v%s", ev.Class, oneLine(ev.Message), max(wait, 0), until)
}

func (v *screen) toolStarted(ev events.ToolDispatched) {
	c := v.calls[ev.Call]
	v.running[ev.Call] = true
	again := ""
	if ev.Attempt > 1 {
		again = fmt.Sprintf(" (attempt %d)", ev.Attempt)
	}
	input := oneLine(string(c.Input))
	if len(ev.Input) > 0 { // patched
		full := render.Style{Full: true}
		input = full.Line(string(ev.Input)) + " (changed from " + full.Line(string(c.Input)) + ")"
	}
	v.note("→ %s %s%s", c.Name, input, again)
}

func (v *screen) toolEnded(ev events.ToolResultReceived) {
	r := ev.Result
	name := cmp.Or(r.Name, v.calls[r.CallID].Name)
	delete(v.calls, r.CallID)
	delete(v.running, r.CallID)
	if v.ended[r.CallID] {
		return // the first result counts; a cancelled call may still report another one
	}
	v.ended[r.CallID] = true
	if r.Status == content.StatusOK {
		v.note("✓ %s %v", name, readable(ev.Duration))
		return
	}
	v.line(v.Style.Bad, "✗ %s %s: %s", name, r.Status.Public(), oneLine(r.Text()))
}

// oneLine clips a text to one line, without colors: the whole line has one color.
func oneLine(text string) string { return render.Style{}.Line(text) }

// readable rounds a duration.
func readable(d time.Duration) time.Duration {
	if d >= time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(100 * time.Microsecond)
}
