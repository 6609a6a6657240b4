package actor_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/turnlogtest"
)

// renewals returns how many answers to tokens are sent in a time.
func (w *world) renewals(d time.Duration) int {
	w.T.Helper()
	sub, err := w.Connect().SubscribeSync("$JS.ACK.TURNLOG_RUN.>")
	if err != nil {
		w.T.Fatal(err)
	}
	<-time.After(d)
	n, _, err := sub.Pending()
	if err != nil {
		w.T.Fatal(err)
	}
	_ = sub.Unsubscribe()
	return n
}

// records returns the nodes' records, with the tokens that the lists name and without.
func (w *world) records() (lists, heartbeats []jetstream.NodeRecord) {
	w.T.Helper()
	lists, err := w.Cell.Nodes().List(w.Ctx)
	if err != nil {
		w.T.Fatal(err)
	}
	if heartbeats, err = w.Cell.Nodes().Heartbeats(w.Ctx); err != nil {
		w.T.Fatal(err)
	}
	return lists, heartbeats
}

// driven fails unless a session was driven by these nodes, in this order.
func (w *world) driven(id content.SessionID, want ...string) {
	w.T.Helper()
	if got := w.owners(id); !slices.Equal(got, want) {
		w.T.Errorf("driven by %v, want %v", got, want)
	}
}

// A node's record says how long its last appends took, for some seconds.
func TestTheRecordSaysHowLongAppendsTook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.node("n1").Drain(t)
		w.thinking("s")
		w.Until("s", events.KindModelCallStarted)
		for _, want := range []int{len(w.Records("s")), 0} {
			said := func() (n int) {
				_, beats := w.records()
				for _, b := range beats {
					n += b.Appends.Count
				}
				return n
			}
			for began := time.Now(); said() != want && time.Since(began) < 20*time.Second; <-time.After(100 * time.Millisecond) {
			}
			if got := said(); got != want {
				t.Errorf("the record has %d appends, want %d", got, want)
			}
		}
	})
}

// The node's record renews the leases of its sessions. The heartbeat has no list, so it does not grow.
func TestAHeldSessionSendsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1", func(c *actor.Config) { c.Idle = time.Hour })
		const sessions = 20
		open := commands.OpenSession{Config: events.Config{Model: "scripted:test", ModelData: []byte(oneReply)}}
		for i := range sessions {
			w.send(content.SessionID(fmt.Sprint("s", i)), "open", open)
		}
		<-time.After(20 * time.Second)
		const minutes = 10
		if got := float64(w.renewals(minutes*time.Minute)) / sessions / (minutes * 60); got > 0.035 {
			t.Errorf("%.3f renewals a second for each session", got)
		}
		lists, beats := w.records()
		if len(lists) != 1 || len(lists[0].Held) != sessions || len(beats[0].Held) != 0 {
			t.Errorf("lists %+v, records %+v", lists, beats)
		}
		for i := range sessions {
			w.driven(content.SessionID(fmt.Sprint("s", i)), "n1")
		}
		n.Drain(t)
	})
}

// A node that restarts under its name overwrites its record. It returns the tokens of its former process, which the
// server would keep for a long time, even if no other node looks.
func TestARestartedNodeTakesItsSessionsBackAtOnce(t *testing.T) {
	t.Parallel()
	for _, others := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			one := func(c *actor.Config) { c.Capacity = 1 } // so that each node has its own session
			first := w.node("n1", one)
			w.thinking("s")
			<-time.After(20 * time.Second)
			var second *turnlogtest.Process
			if others > 0 {
				second = w.node("n2", one)
				w.thinking("other")
				<-time.After(20 * time.Second)
			}
			first.Crash(t)
			again := w.node("n1", one)
			<-time.After(3 * time.Second)
			w.driven("s", "n1", "n1")
			<-time.After(2 * time.Minute)
			w.driven("s", "n1", "n1")
			again.Drain(t)
			if second != nil {
				second.Drain(t)
			}
		})
	}
}

// All nodes were down for a while. The one that starts later has another name. It finds the list, or the leases have
// expired.
func TestANodeThatComesLaterFindsTheSessionsOfADeadOne(t *testing.T) {
	t.Parallel()
	for _, away := range []time.Duration{20 * time.Second, 80 * time.Second, 100 * time.Second, 5 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			first := w.node("n1")
			w.thinking("s")
			<-time.After(time.Minute)
			first.Crash(t)
			<-time.After(away)
			second := w.node("n2")
			<-time.After(4 * time.Second)
			w.driven("s", "n1", "n2")
			<-time.After(2 * time.Minute)
			w.driven("s", "n1", "n2")
			second.Drain(t)
		})
	}
}

func TestADeadNodesLongLeasesAreHandedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		nodes := map[string]*turnlogtest.Process{"n1": w.node("n1"), "n2": w.node("n2"), "n3": w.node("n3")}
		var all []content.SessionID
		for i := range 12 {
			id := content.SessionID(fmt.Sprint("s", i))
			w.thinking(id)
			all = append(all, id)
		}
		<-time.After(time.Minute)
		nodes["n1"].Crash(t)
		delete(nodes, "n1")
		<-time.After(3 * time.Second)
		for _, id := range all {
			if got := w.owners(id); got[len(got)-1] == "n1" {
				t.Errorf("%s is driven by %v 3 s after the crash", id, got)
			}
		}
		took := w.owners(all[0])
		<-time.After(3 * time.Minute)
		w.driven(all[0], took...)
		for _, n := range nodes {
			n.Drain(t)
		}
	})
}

// The node seemed to be dead, for example because its process was suspended. Its session went to another node. The
// first node must find that out without a command for the session, and must not take the session back.
func TestANodeThatSeemedDeadLosesItsSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.node("n1", func(c *actor.Config) { c.Capacity = 1 })
		w.thinking("s")
		<-time.After(20 * time.Second)
		second := w.node("n2")
		lists, _ := w.records()
		held := lists[slices.IndexFunc(lists, func(r jetstream.NodeRecord) bool { return r.Node == "n1" })].Held
		if len(held) != 1 {
			t.Fatalf("n1 holds %v", held)
		}
		if err := w.Cell.Runs().NakFor(held[0].Reply); err != nil { // as a peer does
			t.Fatal(err)
		}
		if err := w.Cell.Nodes().Forget(w.Ctx, "n1"); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Second)
		w.driven("s", "n1", "n2")
		lists, _ = w.records()
		for _, r := range lists {
			if want := map[string]int{"n1": 0, "n2": 1}[r.Node]; len(r.Held) != want {
				t.Errorf("%s names %v", r.Node, r.Held)
			}
		}
		<-time.After(5 * time.Minute)
		w.driven("s", "n1", "n2")
		first.Drain(t)
		second.Drain(t)
	})
}

// A node of an earlier release reads no lists, and renews tokens that it no longer has for 12 s. While one runs, leases
// are short, and the record names the tokens.
func TestLeasesAreShortBesideAnEarlierRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		w.thinking("s")
		<-time.After(20 * time.Second)
		earlier := w.Open(w.Connect()).Nodes()
		record := func() {
			if err := earlier.Record(w.Ctx, jetstream.NodeRecord{Node: "earlier"}); err != nil {
				t.Error(err)
			}
		}
		if err := earlier.Answer(w.Ctx, "earlier", "", func() []jetstream.HeldToken { return nil }); err != nil {
			t.Fatal(err)
		}
		record()
		<-time.After(10 * time.Second)
		if got := w.renewals(40 * time.Second); got < 10 {
			t.Errorf("%d renewals in 40 s", got)
		}
		lists, beats := w.records()
		for i, r := range beats {
			if r.Node == "n1" && (len(r.Held) != 1 || len(lists[i].Held) != 1) {
				t.Errorf("the record names %v, with the list %v", r.Held, lists[i].Held)
			}
		}
		if err := earlier.Forget(w.Ctx, "earlier"); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Second)
		if got := w.renewals(time.Minute); got > 3 {
			t.Errorf("%d renewals in a minute after it left", got)
		}
		w.driven("s", "n1")
		n.Drain(t)
	})
}

// While the list cannot be written, new tokens are not in it, so the node renews each lease.
func TestLeasesAreShortWithoutARecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		w.thinking("s")
		<-time.After(20 * time.Second)
		w.reset("KV_TURNLOG_NODES", func(cfg map[string]any) { cfg["max_msg_size"] = 1 })
		<-time.After(10 * time.Second)
		if got := w.renewals(time.Minute); got < 15 {
			t.Errorf("%d renewals in a minute", got)
		}
		w.driven("s", "n1")
		n.Crash(t)
		later := w.node("n2")
		<-time.After(15 * time.Second)
		w.driven("s", "n1", "n2")
		later.Drain(t)
	})
}

// Only one of two living nodes of a name has the record. The other one's leases stay short, so its sessions return when
// it dies.
func TestTwoNodesOfOneNameLoseNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.node("n", func(c *actor.Config) { c.Capacity = 1 })
		w.thinking("a")
		<-time.After(20 * time.Second)
		second := w.node("n", func(c *actor.Config) { c.Capacity = 1 })
		w.thinking("b")
		<-time.After(3 * time.Minute)
		w.driven("a", "n")
		w.driven("b", "n")
		lists, _ := w.records()
		if len(lists) != 1 || len(lists[0].Held) != 1 || lists[0].Held[0].Session != "a" {
			t.Errorf("records %+v", lists)
		}
		first.Crash(t)
		second.Crash(t)
		third := w.node("m")
		<-time.After(15 * time.Second)
		w.driven("a", "n", "m")
		w.driven("b", "n", "m")
		third.Drain(t)
	})
}

// The driver's entry conflicted with that of another driver, which has stopped. No node has the token, and the server
// would keep it for a long time.
func TestATokenThatItsDriverLeftIsHandedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		s := w.thinking("s")
		<-time.After(20 * time.Second)
		last, err := w.Cell.Journal().Last(w.Ctx, "s")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Cell.Journal().Append(w.Ctx, last.Head, events.Entry{
			Session: "s", Cause: "other", At: last.Entry.At, Epoch: last.Entry.Epoch + 1,
			Events: []events.Event{events.DriverClaimed{Epoch: last.Entry.Epoch + 1, Node: "gone"}},
		}); err != nil {
			t.Fatal(err)
		}
		w.send("s", "stop", commands.Cancel{Scope: commands.ScopeTurn})
		<-time.After(6 * time.Second)
		w.driven("s", "n1", "gone", "n1")
		if got := w.finish(s); got.FinishReason != content.Cancelled {
			t.Errorf("the turn ended as %s, want cancelled", got.FinishReason)
		}
		n.Drain(t)
	})
}

// A node died before anything named its token. The lease is short, so the token returns when it expires.
func TestATokenThatNoListNamesReturnsByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.reset("KV_TURNLOG_NODES", func(cfg map[string]any) { cfg["max_msg_size"] = 1 })
		first := w.node("n1")
		w.thinking("s")
		<-time.After(time.Minute)
		first.Crash(t)
		second := w.node("n2")
		<-time.After(13 * time.Second)
		w.driven("s", "n1", "n2")
		second.Drain(t)
	})
}

// A draining node has no record, and is not watched. Its leases become short before its record is removed.
func TestLeasesAreShortWhileANodeDrains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		w.thinking("s")
		<-time.After(20 * time.Second)
		sub, err := w.Connect().SubscribeSync("$JS.ACK.TURNLOG_RUN.>")
		if err != nil {
			t.Fatal(err)
		}
		gone, err := w.Connect().SubscribeSync("$KV.TURNLOG_NODES.n1")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // until the server knows of the subscriptions
		n.Drain(t)
		if m, err := sub.NextMsgWithContext(w.Ctx); err != nil || string(m.Data) != "+WPI" {
			t.Errorf("%v, %v, want a short renewal", m, err)
		}
		if m, err := gone.NextMsgWithContext(w.Ctx); err != nil || m.Header.Get("KV-Operation") != "DEL" {
			t.Errorf("%v, %v, want the record deleted", m, err)
		}
	})
}

// The node was suspended, and another process took its name and its session. When it resumes, it releases all sessions
// and does not disturb the other process.
func TestANodeWhoseNameWasTakenStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1", func(c *actor.Config) { c.Capacity = 1 })
		w.thinking("s")
		<-time.After(20 * time.Second)
		lists, _ := w.records()
		runs, other := w.Cell.Runs(), w.Cell.Nodes()
		if err := runs.NakFor(lists[0].Held[0].Reply); err != nil {
			t.Fatal(err)
		}
		token, err := runs.Take(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		r := jetstream.NodeRecord{Node: "n1", Process: "new", Held: []jetstream.HeldToken{{Session: "s", Reply: token.Reply()}}}
		if _, err := other.Name(w.Ctx, r); err != nil {
			t.Fatal(err)
		}
		if err := other.Record(w.Ctx, jetstream.NodeRecord{Node: "n1", Process: "new"}); err != nil {
			t.Fatal(err)
		}
		answers := 0
		if err := other.Answer(w.Ctx, "n1", "new", func() []jetstream.HeldToken { answers++; return nil }); err != nil {
			t.Fatal(err)
		}
		sub, err := w.Connect().SubscribeSync("$JS.ACK.TURNLOG_RUN.>")
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(6 * time.Second)
		for range 20 {
			if err := token.Extend(); err != nil {
				t.Fatal(err)
			}
			<-time.After(4 * time.Second)
		}
		if got, _, err := sub.Pending(); got != 20 || err != nil {
			t.Errorf("%d answers to tokens, %v, want those of the test", got, err)
		}
		lists, _ = w.records()
		if len(lists) != 1 || lists[0].Process != "new" || answers == 0 {
			t.Errorf("records %+v, %d answers", lists, answers)
		}
		w.driven("s", "n1")
		n.Drain(t)
	})
}
