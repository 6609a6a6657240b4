package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/testing/faultproxy"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/held"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/internal/probe"
)

func nodes(t *testing.T, c *Cell) []NodeRecord {
	t.Helper()
	got, err := c.Nodes().List(t.Context())
	must(t, err)
	return got
}

func nothingNew() []HeldToken { return nil }

// TestNodeAnswersWithTokensThatItsRecordLacks also covers more tokens than fit into an answer.
func TestNodeAnswersWithTokensThatItsRecordLacks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		var all []HeldToken
		for i := range 3 * held.MaxAnswer {
			all = append(all, HeldToken{
				Session: content.SessionID(fmt.Sprintf("%0100d", i)),
				Reply:   fmt.Sprintf("%s.1.%d.1234567890.1234567890123456789.1234", strings.TrimSuffix(c.Nodes().replyPrefix(), "."), i),
			})
		}
		must(t, c.Nodes().Answer(t.Context(), "n1", "process", func() []HeldToken { return all }))
		got, process, lives := c.Nodes().Ask(t.Context(), "n1")
		if diff := cmp.Diff(all[:held.MaxAnswer], got); diff != "" || !lives || process != "process" {
			t.Errorf("lives: %v, process %q, tokens (-want +got):\n%.1000s", lives, process, diff)
		}
	})
}

func TestNodesAreListedWhileTheyRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		wake(t, c.Runs(), "s1")
		held := []HeldToken{
			{Session: "s1", Reply: take(t, c.Runs(), time.Second).Reply()},
			{Session: "s2", Reply: "$JS.ACK.domain.hash." + c.names.RunStream() + ".drivers.1.1.1.1.1"},
		}
		must(t, c.Nodes().Record(t.Context(), NodeRecord{Node: "n1", Held: held}))
		must(t, c.Nodes().Record(t.Context(), NodeRecord{Node: "n2"}))
		want := []NodeRecord{{Node: "n1", AheadKnown: true, Held: held, SealKeys: []string{}}, {Node: "n2", AheadKnown: true, Held: []HeldToken{}, SealKeys: []string{}}}
		if diff := cmp.Diff(want, nodes(t, c)); diff != "" {
			t.Errorf("nodes (-want +got):\n%s", diff)
		}
		must(t, c.Nodes().Forget(t.Context(), "n1"))
		if diff := cmp.Diff(want[1:], nodes(t, c)); diff != "" {
			t.Errorf("nodes after one left (-want +got):\n%s", diff)
		}
		<-time.After(layout.TokenAckWait)
		if len(nodes(t, c)) != 1 {
			t.Error("a record is gone before the leases in it lapsed")
		}
		<-time.After(NodeTTL)
		if got := nodes(t, c); len(got) != 0 {
			t.Errorf("nodes after their time to live: %+v", got)
		}
	})
}

func manyHeld(c *Cell, n int) []HeldToken {
	held := make([]HeldToken, n)
	for i := range held {
		held[i] = HeldToken{
			Session: content.SessionID(fmt.Sprintf("01JD0000000000000000%06d", i)),
			Reply:   fmt.Sprintf("$JS.ACK.%s.drivers.1.%d.%d.1732186000000000000.0", c.names.RunStream(), i+1_000_000, i+2_000_000),
		}
	}
	return held
}

// Nodes of an earlier release read only the record.
func TestRecordOfAFullNodeFitsIntoAMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		held := manyHeld(c, 10_000)
		must(t, c.Nodes().Record(t.Context(), NodeRecord{Node: "n1", Held: held}))
		if diff := cmp.Diff(held, nodes(t, c)[0].Held); diff != "" {
			t.Error("the record differs from the recorded one")
		}
		if err := c.Nodes().Record(t.Context(), NodeRecord{Node: "n.1"}); !errors.Is(err, content.ErrBadID) {
			t.Errorf("Record = %v, want ErrBadID", err)
		}
	})
}

// A list names the first tokens, as many as fit into a message. Its replies return the same tokens.
func TestAListNamesTheFirstTokens(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		for _, n := range []int{0, 20_000, 100_000} {
			r := NodeRecord{Node: "n1", Process: "p", Held: manyHeld(c, n)}
			named, err := c.Nodes().Name(t.Context(), r)
			must(t, err)
			must(t, c.Nodes().Record(t.Context(), NodeRecord{Node: "n1", Process: "p"}))
			got := nodes(t, c)[0].Held
			if len(named) < min(n, 20_000) || len(got) != len(named) {
				t.Errorf("of %d tokens a list names %d, and %d are read", n, len(named), len(got))
			}
			for i, h := range got {
				if h.Session != r.Held[i].Session || h.Delivery() != r.Held[i].Delivery() {
					t.Fatalf("token %d: %v, want %v", i, h, r.Held[i])
				}
			}
		}
		wake(t, c.Runs(), "s1")
		_, err := c.Nodes().Name(t.Context(), NodeRecord{Node: "n1", Process: "p", Held: []HeldToken{{Session: "s1", Reply: take(t, c.Runs(), time.Second).Reply()}}})
		must(t, err)
		must(t, c.Runs().NakFor(nodes(t, c)[0].Held[0].Reply))
		take(t, c.Runs(), time.Second)
	})
}

// The list of a process does not count for the next process of the same node.
func TestAListCountsWithTheRecordOfItsProcess(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		n := c.Nodes()
		_, err := n.Name(t.Context(), NodeRecord{Node: "n1", Process: "old", Held: manyHeld(c, 3)})
		must(t, err)
		for process, want := range map[string]int{"old": 3, "new": 0, "": 0} {
			must(t, n.Record(t.Context(), NodeRecord{Node: "n1", Process: process}))
			standing, stands, err := c.Nodes().Standing(t.Context(), "n1")
			must(t, err)
			if got := nodes(t, c)[0]; len(got.Held) != want || len(standing.Held) != want || !stands || standing.Process != process {
				t.Errorf("record of %q: %v, standing %v", process, got, standing)
			}
		}
	})
}

func TestARecordThatAnotherProcessChangedIsNotReplaced(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		ctx, mine, other := t.Context(), c.Nodes(), c.Nodes()
		r := NodeRecord{Node: "n1", Process: "p"}
		for what, change := range map[string]func() error{
			"deleted":  func() error { return other.Forget(ctx, "n1") },
			"replaced": func() error { return other.Record(ctx, NodeRecord{Node: "n1", Process: "q"}) },
		} {
			_, _, err := mine.Standing(ctx, "n1")
			must(t, err)
			must(t, mine.Record(ctx, r))
			must(t, mine.Record(ctx, r))
			must(t, change())
			for range 2 {
				if err := mine.Record(ctx, r); !errors.Is(err, ErrReplaced) {
					t.Errorf("%s: Record = %v, want ErrReplaced", what, err)
				}
			}
			now, stands, err := mine.Standing(ctx, "n1")
			must(t, err)
			if stands != (what == "replaced") || stands && now.Process != "q" {
				t.Errorf("%s: standing %v, %t", what, now, stands)
			}
			must(t, mine.Record(ctx, r))
		}
	})
}

func TestProbeDetectsDeadNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := provision(t, connect(t, s))
		ctx, leave := context.WithCancel(t.Context())
		must(t, openCell(t, connect(t, s)).Nodes().Answer(ctx, "alive", "process", nothingNew))
		_, err := connect(t, s).Subscribe(c.names.Probe("hung"), func(*nats.Msg) {})
		must(t, err)
		synctest.Wait()
		for _, p := range []struct {
			node string
			want bool
			took time.Duration
		}{{"alive", true, 0}, {"never-there", false, probe.Timeout}, {"hung", false, 3 * probe.Timeout}} {
			start := time.Now()
			if got := lives(t.Context(), c, p.node); got != p.want || time.Since(start) != p.took {
				t.Errorf("Ask of %s = %v after %v, want %v after %v", p.node, got, time.Since(start), p.want, p.took)
			}
		}
		leave()
		synctest.Wait()
		if lives(t.Context(), c, "alive") {
			t.Error("a node that left is alive")
		}
	})
}

func TestProbeWithoutAConnectionReportsNoNodeDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := openCell(t, connect(t, s))
		c.nc.Close()
		if !lives(t.Context(), c, "n1") {
			t.Error("Ask over a closed connection takes the node for dead")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if !lives(ctx, openCell(t, connect(t, s)), "n1") {
			t.Error("Ask that was called off takes the node for dead")
		}
	})
}

// TestProbeOverADeafConnectionReportsNoNodeDead uses a connection on which all nodes seem silent.
func TestProbeOverADeafConnectionReportsNoNodeDead(t *testing.T) {
	t.Parallel()
	s := startServer(t, embedded.WithListener("127.0.0.1:0"))
	p := faultproxy.New()
	t.Cleanup(p.Close)
	must(t, openCell(t, connect(t, s)).Nodes().Answer(t.Context(), "n1", "process", nothingNew))
	c := openCell(t, connectTCP(t, s, nats.SetCustomDialer(p)))
	if !lives(t.Context(), c, "n1") {
		t.Fatal("a node that answers is dead")
	}
	p.Swallow(faultproxy.ToClient, true)
	if !lives(t.Context(), c, "n1") {
		t.Error("Ask over a deaf connection reports the node dead")
	}
}

// TestAnswersWaitsForABusyNode also covers a closed connection, which shows nothing about the node.
func TestAnswersWaitsForABusyNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := openCell(t, connect(t, s))
		must(t, c.Nodes().Answer(t.Context(), "busy", "process", func() []HeldToken {
			<-time.After(probe.Timeout + probe.Timeout/2)
			return nil
		}))
		if !c.Nodes().Answers(t.Context(), "busy") {
			t.Error("a busy node does not answer")
		}
		if c.Nodes().Answers(t.Context(), "gone") {
			t.Error("an absent node answers")
		}
		closed := openCell(t, connect(t, s))
		closed.nc.Close()
		if !closed.Nodes().Answers(t.Context(), "busy") {
			t.Error("Answers over a closed connection reports the node dead")
		}
	})
}

// TestProbeWaitsForAReconnectingNode probes a node that is disconnected for a moment.
func TestProbeWaitsForAReconnectingNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := provision(t, connect(t, s))
		time.AfterFunc(probe.Timeout/2, func() {
			if err := openCell(t, connect(t, s)).Nodes().Answer(t.Context(), "n1", "process", nothingNew); err != nil {
				t.Error(err)
			}
		})
		if !lives(t.Context(), c, "n1") {
			t.Error("a node that is back is dead")
		}
	})
}

// TestRecordDoesNotWaitForASilentServer lets the caller record newer tokens soon.
func TestRecordDoesNotWaitForASilentServer(t *testing.T) {
	t.Parallel()
	s := startServer(t, embedded.WithListener("127.0.0.1:0"))
	other := provision(t, connect(t, s))
	p := faultproxy.New()
	t.Cleanup(p.Close)
	c := openCell(t, connectTCP(t, s, nats.SetCustomDialer(p)))
	p.Swallow(faultproxy.ToClient, true)
	start := time.Now()
	if err := c.Nodes().Record(t.Context(), NodeRecord{Node: "n1"}); err == nil {
		t.Error("Record = nil, and nothing was acknowledged")
	}
	if took := time.Since(start); took > api.PublishTimeout {
		t.Errorf("Record took %v", took)
	}
	if got := nodes(t, other); len(got) != 1 {
		t.Errorf("records = %v, want the stored ones", got)
	}
}

func lives(ctx context.Context, c *Cell, node string) bool {
	_, _, is := c.Nodes().Ask(ctx, node)
	return is
}
