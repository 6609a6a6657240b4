package loop_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
)

var rewrite = flag.Bool("rewrite", false, "rewrite what the scripts in testdata expect")

// TestScripts tells the stories in testdata: what is said to a session, and exactly
// what becomes fact.
//
// A script is a list of blocks, with an empty line behind each: commands, a line
// of four dashes, and what followed. A command that needs more than a line goes on
// in indented ones. What a command may look like is in verbs_test.go.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(text), got); diff != "" {
				t.Errorf("%s (-want +got), run with -rewrite and read the diff:\n%s", file, diff)
			}
		})
	}
}

// play runs a script and returns it with what happened.
func play(t *testing.T, text string) string {
	t.Helper()
	var out strings.Builder
	r := &runner{session: newSession()}
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		head, _, isBlock := strings.Cut(block, "\n----")
		out.WriteString(head + "\n")
		if isBlock {
			out.WriteString("----\n" + r.block(t, head))
		}
		out.WriteString("\n")
	}
	r.finish(t)
	return strings.TrimSuffix(out.String(), "\n")
}

type runner struct{ *session }

// block runs the commands of one block and renders what followed.
func (r *runner) block(t *testing.T, text string) string {
	t.Helper()
	var out strings.Builder
	commands := statements(text)
	moved := false
	for _, st := range commands {
		if len(commands) > 1 {
			fmt.Fprintf(&out, "> %s\n", st.verb)
		}
		said, changed := r.run(t, st)
		out.WriteString(said)
		moved = moved || changed
	}
	if moved {
		fmt.Fprintf(&out, "waiting: %s\n", loop.Waiting(r.live))
		fmt.Fprintf(&out, "pending: %s\n", pendingLine(r.live))
	}
	return out.String()
}

func pendingLine(s *loop.State) string {
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
func (r *runner) run(t *testing.T, st statement) (string, bool) {
	t.Helper()
	if show, ok := r.query(t, st); ok {
		return show, false
	}
	if st.verb == "begin" {
		r.begin(t, st)
		return "", true
	}
	env := r.envelope(r.command(t, st))
	env.Checks = r.patchedChecks(t, st)
	evs, err := r.do(t, env)
	if rej, ok := errors.AsType[*loop.Rejection](err); ok {
		return "refused: " + rej.Error() + "\n", false
	}
	if err != nil {
		t.Fatalf("%s: %v", st, err)
	}
	return lines(evs), true
}

func lines(evs []events.Event) string {
	if len(evs) == 0 {
		return "no events\n"
	}
	var b strings.Builder
	for _, ev := range evs {
		b.WriteString(renderEvent(ev) + "\n")
	}
	return b.String()
}

// query answers the statements that only look or turn the clock.
func (r *runner) query(t *testing.T, st statement) (string, bool) {
	t.Helper()
	var b strings.Builder
	switch st.verb {
	case "advance":
		r.at = r.at.Add(st.duration(t, 0))
	case "offer":
		r.offers = offersOf(t, st)
	case "transcript":
		for _, it := range r.live.Transcript {
			it.CreatedAt = 0
			b.WriteString(render(it) + "\n")
		}
	case "last":
		b.WriteString(render(*r.live.Last) + "\n")
	case "ends":
		for _, e := range r.live.Ends {
			b.WriteString(render(e) + "\n")
		}
	case "approvals":
		for _, a := range r.live.Undecided() {
			b.WriteString(render(a) + "\n")
		}
	case "phase":
		b.WriteString(string(r.live.Phase()) + "\n")
	case "parkable":
		fmt.Fprintln(&b, r.live.Parkable())
	case "effects":
		for _, e := range loop.Pending(r.live) {
			b.WriteString(render(e) + "\n")
		}
	default:
		return "", false
	}
	return b.String(), true
}
