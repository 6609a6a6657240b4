package jetstream

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/embedded"
)

// inBubble runs a test in virtual time with a provisioned cell on a server of its
// own.
func inBubble(t *testing.T, test func(t *testing.T, c *Cell)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newCell(t)) })
}

// inBareBubble runs a test in virtual time with a cell that nobody provisioned.
func inBareBubble(t *testing.T, test func(t *testing.T, c *Cell)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, openCell(t, connect(t, startServer(t)))) })
}

func onDisk(tb testing.TB) []embedded.Option {
	return []embedded.Option{embedded.WithStore(tb.TempDir()), embedded.WithListener("127.0.0.1:0")}
}

func connectTCP(tb testing.TB, s *embedded.Server, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	nc, err := nats.Connect(s.ClientURL(), opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(nc.Close)
	return nc
}

func TestNamespacesDoNotShareStreams(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, ns := range []string{"turnlog", "TURNLOG", "Turnlog", "turn-log", "turn_log", "TURN_LOG", "TURN-LOG", "a", "A", "a-", "A-"} {
		for _, row := range Topology(ns, Config{}) {
			if other, ok := seen[row.Stream]; ok {
				t.Errorf("stream %s belongs to namespaces %s and %s", row.Stream, other, ns)
			}
			seen[row.Stream] = ns
		}
	}
}

func TestBadNamespacesAreRefused(t *testing.T) {
	t.Parallel()
	nc := connect(t, startServer(t))
	for _, ns := range []string{"a.b", "*", ">", "a b", strings.Repeat("x", 129)} {
		if c, err := Open(nc, ns); err == nil {
			t.Errorf("Open(%q) = %v, want an error", ns, c)
		}
	}
	if got := openCell(t, nc).Namespace(); got != DefaultNamespace {
		t.Errorf("namespace = %q, want the default %q", got, DefaultNamespace)
	}
}

func TestSessionIsReadFromEverySubject(t *testing.T) {
	t.Parallel()
	n := newNames("ns")
	for _, subject := range []string{
		n.journal("s-1"), n.cmd("s-1", "ask"), n.timer("s-1", "retry"), n.due("s-1"), n.run("s-1"),
		n.task("queue", "s-1", "t1-r1-c1"), n.delta("s-1"), n.cancel("s-1"),
	} {
		for _, subject := range []string{subject, n.live(subject)} {
			if got := n.sessionOf(subject); got != "s-1" {
				t.Errorf("session of %s = %q, want s-1", subject, got)
			}
		}
	}
	if got := n.sessionOf("ns"); got != "" {
		t.Errorf("session of a bare namespace = %q", got)
	}
}
