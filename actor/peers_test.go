package actor_test

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/turnlogtest"
)

// No token that other nodes can know of waits for its lease.
func TestATokenTakenJustBeforeACrashIsHandedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.node("n1")
		<-time.After(time.Second) // its first record is written
		w.thinking("s")
		second := w.node("n2")
		<-time.After(50 * time.Millisecond)
		first.Crash(t)
		<-time.After(3 * time.Second)
		if got := w.owners("s"); !slices.Equal(got, []string{"n1", "n2"}) {
			t.Errorf("driven by %v 3 s after the crash", got)
		}
		second.Drain(t)
	})
}

// The node was only disconnected for a while. The next time it may really die.
func TestANodeThatWasPresumedDeadRecordsItsTokensAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1")
		w.thinking("s")
		<-time.After(time.Second)
		if err := w.Cell.Nodes().Forget(w.Ctx, "n1"); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		if got, err := w.Cell.Nodes().List(w.Ctx); err != nil || len(got) != 1 || len(got[0].Held) != 1 {
			t.Errorf("records = %+v, %v, want its own with the token", got, err)
		}
		n.Drain(t)
	})
}

// The stream of commands is gone for a while. No other node has the token, so none has to wait for
// its lease.
func TestADriverThatCannotReadReturnsItsToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex // guards left and said
		var left []time.Time
		said := 0
		n := w.node("n1", func(c *actor.Config) {
			c.Logger = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "m"}), zapcore.AddSync(io.Discard), zap.DebugLevel),
				zap.Hooks(func(e zapcore.Entry) error {
					mu.Lock()
					defer mu.Unlock()
					switch e.Message {
					case "session cannot be driven":
						said++
						left = append(left, time.Now())
					case "session still cannot be driven":
						left = append(left, time.Now())
					}
					return nil
				}))
		})
		w.thinking("s")
		if _, err := w.Connect().RequestWithContext(w.Ctx, "$JS.API.STREAM.DELETE.TURNLOG_INBOX", nil); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		mu.Lock()
		if len(left) < 12 {
			t.Errorf("left %d times in a minute, want repeated retries: %v", len(left), left)
		}
		if said > 3 {
			t.Errorf("the same error is logged %d times", said)
		}
		mu.Unlock() // a draining driver logs, too
		n.Drain(t)
	})
}

// The other nodes know of the token from the answers to their probes. Two nodes must not both hand
// it on, or the second would take the session from the first one's successor.
func TestATokenThatIsNotRecordedIsHandedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		nodes := map[string]*turnlogtest.Process{"n1": w.node("n1"), "n2": w.node("n2"), "n3": w.node("n3")}
		<-time.After(time.Second) // their first records are written, and stay readable
		w.reset("KV_TURNLOG_NODES", func(cfg map[string]any) { cfg["max_msg_size"] = 1 })
		w.thinking("s")
		<-time.After(2 * time.Second)
		first := w.owners("s")[0]
		nodes[first].Crash(t)
		delete(nodes, first)
		<-time.After(3 * time.Second)
		took := w.owners("s")
		if len(took) != 2 || took[1] == first {
			t.Errorf("driven by %v 3 s after the crash of %s", took, first)
		}
		<-time.After(5 * time.Second) // the dead node's record still exists, and the others lack the session
		if got := w.owners("s"); !slices.Equal(got, took) {
			t.Errorf("driven by %v later on: it was taken from its driver", got)
		}
		for _, n := range nodes {
			n.Drain(t)
		}
	})
}

// TestATokenInNoListIsHandedOn has a node die between taking a token and recording it. The
// bound is for the whole takeover, which took a lease of 12 s before.
func TestATokenInNoListIsHandedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		nodes := map[string]*turnlogtest.Process{"n1": w.node("n1"), "n2": w.node("n2"), "n3": w.node("n3")}
		<-time.After(time.Second) // their first records are written, and stay readable
		w.reset("KV_TURNLOG_NODES", func(cfg map[string]any) { cfg["max_msg_size"] = 1 })
		var slowest time.Duration
		for _, id := range []content.SessionID{"a", "b"} {
			w.thinking(id)
			first := w.owners(id)[0]
			nodes[first].Crash(t) // no time has passed, so no probe has asked it
			delete(nodes, first)
			began := time.Now()
			for len(w.owners(id)) < 2 && time.Since(began) < time.Minute {
				<-time.After(10 * time.Millisecond)
			}
			slowest = max(slowest, time.Since(began))
			took := w.owners(id)
			<-time.After(20 * time.Second)
			if got := w.owners(id); !slices.Equal(got, took) {
				t.Errorf("driven by %v, then by %v: it was taken from its driver", took, got)
			}
		}
		t.Logf("the slowest takeover took %v", slowest)
		if slowest > 4*time.Second {
			t.Errorf("a takeover took %v", slowest)
		}
		for _, n := range nodes {
			n.Drain(t)
		}
	})
}

// One list of tokens proves those of all sessions of a node: no session sends a request of its own. A lost token
// is still found, and no other session is affected.
func TestSessionsShareTheProofOfTheirTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node("n1", func(c *actor.Config) { c.Idle = time.Hour })
		open := commands.OpenSession{Config: events.Config{Model: "scripted:test", ModelData: []byte(oneReply)}}
		var all []content.SessionID
		for i := range 140 {
			id := content.SessionID(fmt.Sprint("s", i))
			w.send(id, "open", open)
			all = append(all, id)
		}
		<-time.After(20 * time.Second)
		asked, err := w.Connect().SubscribeSync("turnlog.run.*")
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if count, _, err := asked.Pending(); count > 0 || err != nil {
			t.Errorf("%d proofs by single sessions in a minute, %v", count, err)
		}
		if _, err := w.Connect().RequestWithContext(w.Ctx, "$JS.API.STREAM.PURGE.TURNLOG_RUN", []byte(`{"filter":"turnlog.run.s7"}`)); err != nil {
			t.Fatal(err)
		}
		<-time.After(20 * time.Second) // a lease, the age of a list, and a takeover
		for _, id := range all {
			want := []string{"n1"}
			if id == "s7" {
				want = []string{"n1", "n1"}
			}
			if got := w.owners(id); !slices.Equal(got, want) {
				t.Errorf("%s was driven by %v, want %v", id, got, want)
			}
		}
		n.Drain(t)
	})
}
