package embedded

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

// watch ends the process with an explanation if the test takes longer than limit in real time,
// because a bubble whose clock stands still only hangs. The timer is outside the bubble, so it uses
// the real clock.
func watch(t *testing.T, limit time.Duration) {
	t.Helper()
	timer := time.AfterFunc(limit, func() {
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
		fmt.Fprintln(os.Stderr, `
The clock of a synctest bubble does not move while a server runs inside.
Time stands still in a bubble as long as one of its goroutines waits for something outside.
Look above for a goroutine of nats-server with "synctest bubble" in its header that waits without
"(durable)", most likely on a channel made when a package was initialized, like that of the access
time service (server/ats). Start that goroutine in PrepareForSynctest.`)
		os.Exit(2)
	})
	t.Cleanup(func() { timer.Stop() })
}

// TestBubbleClockMovesWithTheServerInside is a canary: many tests of the module depend on this, and
// an upgrade of nats-server can break it.
func TestBubbleClockMovesWithTheServerInside(t *testing.T) {
	watch(t, 30*time.Second)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := run(t, WithStore(dir))
		nc := connect(t, s)
		createStream(t, nc)
		mustAsk(t, nc, "$JS.API.CONSUMER.CREATE.S.C",
			`{"stream_name":"S","config":{"durable_name":"C","ack_policy":"explicit","ack_wait":30000000000}}`)
		mustAsk(t, nc, "s", "hello")
		if got := pull(t, nc, time.Second); got != "hello" {
			t.Fatalf("first delivery = %q", got)
		}
		if got := pull(t, nc, 29*time.Second); got != "" {
			t.Fatalf("delivered again before the ack wait ended: %q", got)
		}
		if got := pull(t, nc, 10*time.Second); got != "hello" {
			t.Fatalf("second delivery = %q, want the message after its ack wait", got)
		}
		s.Close()

		nc = connect(t, run(t, WithStore(dir)))
		if a := mustAsk(t, nc, "$JS.API.STREAM.INFO.S", ""); a.State.Messages != 1 {
			t.Errorf("messages after a restart in the bubble = %d, want 1", a.State.Messages)
		}
		if passed := time.Since(start); passed < 30*time.Second {
			t.Errorf("only %v of virtual time passed", passed)
		}
	})
}

// pull requests one message from consumer C and returns its data, or "" if none arrives within wait.
func pull(t *testing.T, nc *nats.Conn, wait time.Duration) string {
	t.Helper()
	inbox, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"batch":1,"expires":%d}`, wait)
	if err := nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.S.C", inbox.Subject, []byte(body)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait+time.Second)
	defer cancel()
	msg, err := inbox.NextMsgWithContext(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return string(msg.Data) // empty with status 408 when the request expired
}

// The NATS client flushes after a reconnect with a timer from a pool. The pool outlives the bubbles; a
// timer must not.
func TestConnectionReconnectsInAnyBubble(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty the pools
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))  // each has a pool
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			nc := connect(t, run(t))
			reconnected := make(chan struct{}, 1)
			nc.SetReconnectHandler(func(*nats.Conn) { reconnected <- struct{}{} })
			for range 2 {
				if err := nc.ForceReconnect(); err != nil {
					t.Fatal(err)
				}
				<-reconnected
				mustAsk(t, nc, "$JS.API.INFO", "")
			}
		})
	}
}
