package looptest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
)

// Play runs a script and returns it with what happened. It fails t if a check of Session
// fails.
func Play(t testing.TB, text string) string {
	t.Helper()
	out, _ := play(t, text)
	return out
}

// Records runs a script and returns the journal, whose positions have gaps as in a stream of many sessions.
func Records(t testing.TB, text string) (all []journal.Record) {
	t.Helper()
	_, s := play(t, text)
	for i, payload := range s.journal {
		e, err := events.Decode(payload)
		if err != nil {
			t.Fatal(err)
		}
		const gap = 3
		all = append(all, journal.Record{Head: journal.Head{Seq: e.Seq, Hash: events.HashOf(payload), Guard: uint64(i+1) * gap}, Entry: e, Payload: payload})
	}
	return all
}

func play(t testing.TB, text string) (string, *Session) {
	t.Helper()
	var out strings.Builder
	r := &runner{NewSession("s")}
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		head, _, isBlock := strings.Cut(block, "\n----")
		out.WriteString(head + "\n")
		if isBlock {
			out.WriteString("----\n" + r.block(t, head))
		} else if len(statements(head)) > 0 {
			t.Errorf("these statements do not run, because no line of four dashes follows them: add one and run the test with -update\n%s", head)
		}
		out.WriteString("\n")
	}
	r.Finish(t)
	return strings.TrimSuffix(out.String(), "\n"), r.Session
}

// runner is the session of a script.
type runner struct{ *Session }

// block runs the statements of a block and renders what followed.
func (r *runner) block(t testing.TB, text string) string {
	t.Helper()
	var out strings.Builder
	commands := statements(text)
	moved := false
	for _, st := range commands {
		if len(commands) > 1 {
			fmt.Fprintf(&out, "> %s\n", st.verb)
		}
		text, changed := r.run(t, st)
		out.WriteString(text)
		moved = moved || changed
	}
	if moved {
		fmt.Fprintf(&out, "waiting: %s\n", loop.Waiting(r.Live))
		fmt.Fprintf(&out, "pending: %s\n", Owed(r.Live))
	}
	return out.String()
}

// Owed names the effects that a session owes, on one line.
func Owed(s *loop.State) string {
	var ids []string
	for _, e := range loop.Pending(s) {
		ids = append(ids, renderEffect(e))
	}
	if len(ids) == 0 {
		return "nothing"
	}
	return strings.Join(ids, ", ")
}

// run runs one command and reports whether the session moved.
func (r *runner) run(t testing.TB, st statement) (string, bool) {
	t.Helper()
	if show, ok := r.query(t, st); ok {
		return show, false
	}
	switch st.verb {
	case "begin":
		r.begin(t, st)
		return "", true
	case "session":
		r.Session = NewSession(content.SessionID(st.arg(0)))
		return "", false
	case "record":
		return r.recorded(t, st), true
	}
	evs, err := r.Do(t, r.envelope(t, st))
	if rej, ok := errors.AsType[*commands.Rejection](err); ok {
		return "refused: " + rej.Error() + "\n", false
	}
	if err != nil {
		t.Fatalf("%s: %v", st, err)
	}
	return lines(evs), true
}

// envelope returns the envelope of a statement.
func (r *runner) envelope(t testing.TB, st statement) commands.Envelope {
	t.Helper()
	if st.verb == "tell" {
		return r.tell(t, st)
	}
	env := r.Envelope(r.command(t, st))
	env.User = st.opt["user"]
	if _, cancels := env.Command.(commands.Cancel); commands.LaneOf(env.Command) == events.LaneAsk && !cancels {
		env.By = st.opt["by"] // input has a sender only where a script is about that
	}
	env.Checks = r.patchedChecks(t, st)
	if st.verb == "open" || st.verb == "close" {
		env.Hooks = st.answers()
	}
	return env
}

func lines(evs []events.Event) string {
	if len(evs) == 0 {
		return "no events\n"
	}
	var b strings.Builder
	for _, ev := range evs {
		b.WriteString(RenderEvent(ev) + "\n")
	}
	return b.String()
}

// query runs the statements that only look at the state or set the clock.
func (r *runner) query(t testing.TB, st statement) (string, bool) {
	t.Helper()
	var b strings.Builder
	switch st.verb {
	case "advance":
		r.At = r.At.Add(st.duration(t, 0))
	case "offer":
		r.Offers = offersOf(t, st)
	case "policy":
		r.Policy = policyOf(st)
	case "snapshot": // of a format that no release computes, so the digest stays
		r.Taken = &events.SnapshotTaken{Digest: events.HashOf([]byte(st.arg(0)))}
	case "transcript":
		for _, it := range r.Live.Transcript {
			it.CreatedAt = 0
			b.WriteString(Render(it) + "\n")
		}
	case "last":
		b.WriteString(Render(*r.Live.Last) + "\n")
	case "ends":
		for _, e := range r.Live.Ends {
			b.WriteString(Render(e) + "\n")
		}
	case "approvals":
		for _, a := range r.Live.PendingApprovals() {
			b.WriteString(Render(a) + "\n")
		}
	case "phase":
		b.WriteString(string(r.Live.Phase()) + "\n")
	case "parkable":
		fmt.Fprintln(&b, r.Live.Parkable())
	case "effects":
		for _, e := range loop.Pending(r.Live) {
			b.WriteString(Render(e) + "\n")
		}
	default:
		return "", false
	}
	return b.String(), true
}
