package layout

import (
	"testing"

	"github.com/turnlog/turnlog/events"
)

func TestNamespacesDoNotShareStreams(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, ns := range []string{"turnlog", "TURNLOG", "Turnlog", "turn-log", "turn_log", "TURN_LOG", "TURN-LOG", "a", "A", "a-", "A-"} {
		for _, s := range New(ns).Streams() {
			if other, ok := seen[s.Config.Name]; ok {
				t.Errorf("stream %s belongs to namespaces %s and %s", s.Config.Name, other, ns)
			}
			seen[s.Config.Name] = ns
		}
	}
}

func TestSessionOfEverySubject(t *testing.T) {
	t.Parallel()
	n := New("ns")
	for _, subject := range []string{
		n.Journal("s-1"), n.Cmd("s-1", "ask"), n.CmdOf("ada", "s-1", "ask"), n.Timer("s-1", "retry"), n.Due("s-1"), n.Run("s-1"),
		n.Task("queue", "s-1", "t1-r1-c1"), n.Delta("s-1"), n.Cancel("s-1"),
	} {
		for _, subject := range []string{subject, n.Live(subject)} {
			if got := n.SessionOf(subject); got != "s-1" {
				t.Errorf("session of %s = %q, want s-1", subject, got)
			}
		}
	}
	for _, subject := range []string{"ns", "ns.run", "ns.run.*", "ns.run.>", "ns.cmd.*.ask", "ns.task.q.*.t1-r1-c1", "ns.task.q", "ns.journal.a b", "ns.due.\x1b"} {
		for _, subject := range []string{subject, n.Live(subject)} {
			if got := n.SessionOf(subject); got != "" {
				t.Errorf("session of %s = %q, want none", subject, got)
			}
		}
	}
}

func TestSendersOfSubjects(t *testing.T) {
	t.Parallel()
	n := New("x")
	type sender struct {
		lane events.Lane
		user string
	}
	for subject, want := range map[string]sender{
		n.Cmd("s1", events.LaneAsk):                      {events.LaneAsk, ""},
		n.Live(n.Cmd("s1", events.LaneDecide)):           {events.LaneDecide, ""},
		n.Live(n.Cmd("due", events.LaneAsk)):             {events.LaneAsk, ""},
		n.CmdOf("ada", "s1", events.LaneAsk):             {"ask.*", "ada"},
		n.Live(n.CmdOf("ask", "due", events.LaneDecide)): {"decide.*", "ask"},
		n.CmdOf("ada", "s1", events.LaneAsk.Named()):     {events.LaneAsk.Named(), "ada"},
		n.Live(n.CmdOf("ada", "live", "ask")):            {"ask.*", "ada"},
		n.Due("s1"):                                      {events.LaneDue, ""},
		n.Live(n.Due("ask")):                             {events.LaneDue, ""},
	} {
		if lane, user := n.SenderOf(subject); (sender{lane, user}) != want {
			t.Errorf("sender of %s = %q %q, want %+v", subject, lane, user, want)
		}
	}
}

func TestAnInboxPrefixTellsAUserItsName(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		InboxOf("ada"): "ada", "_USER_ada.": "ada", "": "", "_INBOX": "", "_INBOX_ada": "", "_USER_": "", "_USER_a.b": "", "_USER_*": "",
	} {
		if got := UserOfInbox(prefix); got != want {
			t.Errorf("user of %q = %q, want %q", prefix, got, want)
		}
	}
}
