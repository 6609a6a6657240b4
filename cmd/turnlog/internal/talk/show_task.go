package talk

import (
	"fmt"
	"strings"

	"github.com/turnlog/turnlog/events"
)

// phase shows the phase of a task. It shows nothing for other turns.
func (v *textView) phase(ev any) {
	switch ev := ev.(type) {
	case events.TaskStarted:
		v.task = &ev
		v.line(v.term.Style.Dim, "planning")
	case events.TurnStarted:
		if v.task != nil {
			v.line(v.term.Style.Dim, "executing")
		}
	case events.VerifyStarted:
		of := ""
		if v.task != nil {
			of = fmt.Sprintf(" of %d", v.task.Spec.MaxRetries+1)
		}
		v.line(v.term.Style.Dim, "verifying, attempt %d%s", ev.Attempt, of)
	case events.VerifyFinished:
		v.verified(ev)
	case events.InputAccepted:
		if v.task != nil && ev.Origin == events.FromVerifier {
			v.line(v.term.Style.Dim, "executing")
		}
	case events.TaskFinished:
		v.task = nil
	}
}

func (v *textView) verified(ev events.VerifyFinished) {
	switch ev.Status {
	case "passed":
		v.line(v.term.Style.Dim, "✓ verifier passed %v", readable(ev.Duration))
	case "failed":
		v.line(v.term.Style.Bad, "✗ verifier failed %v", readable(ev.Duration))
		for line := range strings.Lines(ev.Output) {
			v.line(v.term.Style.Dim, "  %s", v.term.Style.Line(strings.TrimRight(line, "\n")))
		}
	default:
		return
	}
	if ev.Success {
		v.line(v.term.Style.Dim, "reporting")
	}
}
