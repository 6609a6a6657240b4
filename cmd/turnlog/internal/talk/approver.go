package talk

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// Approve approves with --yes, and otherwise asks the user at the terminal. Without a
// terminal, it leaves the decision to others.
func (v *conversation) Approve(ctx context.Context, a events.Approval) (approve bool, reason string, err error) {
	x, s := v.current, v.session
	switch {
	case v.yes && s.OpenTurn() == x.turn.ID(): // --yes is not for the turns of others
		return true, "", nil
	case !v.asks:
		return false, "", session.ErrUndecided
	}
	for seq := s.Head().Seq; x.shown.Load() < seq; { // first show everything that led to the question
		select {
		case <-x.moved:
		case <-ctx.Done():
			return false, "", context.Cause(ctx)
		}
	}
	if earlier := v.answered(a); earlier != "" {
		x.locked(func() { x.show.note("? %s: approved with an earlier answer: %s", a.Tool, earlier) })
		return true, earlier, nil
	}
	if !v.setAside() {
		return false, "", session.ErrUndecided
	}
	x.locked(func() { v.present(x.show, a) })
	for {
		x.locked(func() {
			x.asking = a.ID
			x.show.ask("  Run it? [" + answers(a) + "] ")
		})
		line, err := v.reply(ctx)
		if err != nil {
			return false, "", err
		}
		x.locked(func() { x.asking, x.show.asking = "", line.Err != nil })
		word, reason, _ := strings.Cut(strings.TrimSpace(line.Text), " ")
		switch word = strings.ToLower(word); {
		case line.Err != nil: // end of input
			v.asks = false
			return false, "", session.ErrUndecided
		case line.Late:
			x.locked(func() { x.show.line(v.Style.Bad, "%s", errLate) })
		case word == "y" || word == "yes":
			return true, "", nil
		case word == "n" || word == "no":
			return false, strings.TrimSpace(reason), nil
		case report.Covers(a) != "" && (word == "i" || word == "t"):
			v.answers = append(v.answers, answer{a, word == "t"})
			return true, "", nil
		case report.Covers(a) != "" && (word == "a" || word == "always"):
			err := s.ResolveApproval(ctx, session.Decision{Call: a.CallID, Approve: true, Always: true})
			if err == nil || errors.Is(err, session.ErrInvalidState) {
				<-ctx.Done() // it is decided
				err = context.Cause(ctx)
			}
			return false, "", err
		case word != "":
			x.locked(func() { x.show.line(v.Style.Bad, "that is not an answer; it was not sent") })
		}
	}
}

// errLate is returned for an answer to a question that is no longer open.
var errLate = errors.New("that question is closed; the answer was not sent")

// reply waits for the answer to the question on the screen, until the question is decided elsewhere or the turn is cancelled.
// Lines sent before the question was drawn become the next input.
func (v *conversation) reply(ctx context.Context) (app.Line, error) {
	for {
		select {
		case line := <-v.lines():
			if input := v.Ready != nil && !line.Answer && !line.Late && line.Err == nil; !input {
				return line, nil
			}
			v.ahead = append(v.ahead, line)
		case <-ctx.Done():
			return app.Line{}, context.Cause(ctx)
		}
	}
}

// setAside keeps what was typed before a question: it does not answer it. It reports whether
// the user can still answer.
func (v *conversation) setAside() bool {
	for v.asks {
		select {
		case line := <-v.lines():
			v.ahead = append(v.ahead, line)
			v.asks = line.Err == nil
		default:
			return true
		}
	}
	return false
}

// answers lists what the user may type.
func answers(a events.Approval) string {
	if report.Covers(a) == "" {
		return "y, n, or n and a reason"
	}
	return "y, i, t, a, n, or n and a reason"
}

// present shows everything that a person needs to know before deciding.
func (v *conversation) present(s *screen, a events.Approval) {
	s.note("? %s (call %s)", a.Tool, a.CallID)
	s.show(render.Input(v.Style, a.Input))
	if model := s.calls[a.CallID].Input; len(model) > 0 && tool.Digest(model) != tool.Digest(a.Input) {
		s.note("  changed from the model's input:")
		s.show(render.Input(v.Style, model))
	}
	s.show(v.fileChange(a))
	s.note("  %s", report.QuestionOf(a))
	if covers := report.Covers(a); covers != "" {
		s.note("  y: this call")
		s.note("  i: also calls with the same arguments, while this command runs")
		s.note("  t: also calls with the same question, for the rest of this turn")
		s.note("  a, always: %s", covers)
	}
}

// maxCompared bounds the files whose change is shown.
const maxCompared = 1 << 20

// fileChange shows how a call changes a file of this process's tools.
func (v *conversation) fileChange(a events.Approval) string {
	var in struct{ Path, Content string }
	if v.root == "" || a.Tool != "fs_write_file" || json.Unmarshal(a.Input, &in) != nil {
		return ""
	}
	root, err := os.OpenRoot(v.root)
	if err != nil {
		return ""
	}
	defer func() { _ = root.Close() }() // it is only read
	if info, err := root.Stat(in.Path); err != nil || !info.Mode().IsRegular() || info.Size() > maxCompared {
		return ""
	}
	before, err := root.ReadFile(in.Path)
	switch {
	case err != nil:
		return ""
	case string(before) == in.Content:
		return "    does not change " + render.Safe(in.Path) + "\n"
	}
	return render.Change(v.Style, "changes "+in.Path, string(before), in.Content)
}

// answer is an approval that also answers later questions.
type answer struct {
	events.Approval
	turn bool // covers all calls of the turn that ask the same, not only calls with the same input
}

// answered describes the earlier answer that covers a question, or returns "".
func (v *conversation) answered(a events.Approval) string {
	for _, b := range v.answers {
		switch same := a.Tool == b.Tool && a.RequestKind == b.RequestKind && a.Scope == b.Scope; {
		case same && b.turn && a.Turn == b.Turn:
			return "in the turn of " + string(b.CallID)
		case same && !b.turn && a.Digest == b.Digest:
			return "same arguments as " + string(b.CallID)
		}
	}
	return ""
}
