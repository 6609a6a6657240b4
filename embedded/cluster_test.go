package embedded

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"
)

func TestClusterLosesNothingWhenServersStopAndRestart(t *testing.T) {
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := StartCluster(ctx, 3)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := c.Connect()
	if err != nil {
		t.Fatal(err)
	}
	createStream(t, nc, 3)
	mustAsk(t, nc, "s", "one")

	leader := mustAsk(t, nc, "$JS.API.STREAM.INFO.S", "").Cluster.Leader
	var i int
	for n, s := range c.Servers() {
		if s.Name() == leader {
			i = n
		}
	}
	c.Stop(i)
	publish(ctx, t, nc, "two")
	if err := c.Restart(ctx, i); err != nil {
		t.Fatal(err)
	}
	if got := c.Servers()[i].Name(); got != leader {
		t.Errorf("restarted server is %s, want %s", got, leader)
	}

	// Without another server, the majority includes the restarted one.
	c.Stop((i + 1) % 3)
	publish(ctx, t, nc, "three")
	if a := mustAsk(t, nc, "$JS.API.STREAM.INFO.S", ""); a.State.Messages != 3 {
		t.Errorf("messages = %d, want 3", a.State.Messages)
	}
	c.Close()
	c.Close()
	if !nc.IsClosed() {
		t.Error("connection is still open after Close")
	}
	goleak.VerifyNone(t, before)
}

// publish retries until the stream has a leader. Each message has an ID, so a retry after a lost
// answer is not stored twice.
func publish(ctx context.Context, t *testing.T, nc *nats.Conn, text string) {
	t.Helper()
	for {
		msg := &nats.Msg{Subject: "s", Data: []byte(text), Header: nats.Header{nats.MsgIdHdr: {text}}}
		try, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		reply, err := nc.RequestMsgWithContext(try, msg)
		cancel()
		if err == nil && !strings.Contains(string(reply.Data), `"error"`) {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("publish %s: %v, %v", text, context.Cause(ctx), err)
		}
		<-try.Done() // do not retry at once while there is no leader
	}
}

func TestClusterLocksItsStore(t *testing.T) {
	dir := t.TempDir()
	c, err := StartCluster(t.Context(), 3, WithStore(dir), WithUser("ann", "pw"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	nc, err := c.Connect()
	if err != nil {
		t.Fatal(err)
	}
	createStream(t, nc, 3)
	for _, s := range c.Servers() {
		if s.InMemory() {
			t.Errorf("InMemory of %s = true with a store", s.Name())
		}
		if _, err := os.Stat(filepath.Join(dir, s.Name(), "jetstream")); err != nil {
			t.Errorf("store of %s: %v", s.Name(), err)
		}
	}
	if _, err := StartCluster(t.Context(), 3, WithStore(dir)); !errors.Is(err, ErrStoreInUse) {
		t.Errorf("a second cluster on the same store: %v, want %v", err, ErrStoreInUse)
	}
}

func TestClusterRejectsBadOptions(t *testing.T) {
	for _, c := range []struct {
		n    int
		opts []Option
		want string
	}{
		{2, nil, "give 3 or more"},
		{3, []Option{WithListener("127.0.0.1:0")}, "omit the listener"},
		{3, []Option{WithSync()}, "give a store directory"},
	} {
		_, err := StartCluster(t.Context(), c.n, c.opts...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("StartCluster of %d = %v, want an error with %q", c.n, err, c.want)
		}
	}
}
