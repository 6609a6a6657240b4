package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/turnlog/turnlog/embedded"
)

func TestItLosesNothingWhenServersStopAndRestart(t *testing.T) {
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	c, err := Start(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := c.Connect()
	if err != nil {
		t.Fatal(err)
	}
	ask(t, nc, "$JS.API.STREAM.CREATE.S", `{"name":"S","subjects":["s"],"num_replicas":3}`)
	ask(t, nc, "s", "one")
	for _, s := range c.Servers() {
		if s.InMemory() {
			t.Errorf("InMemory of %s = true with a store", s.Name())
		}
		if _, err := os.Stat(filepath.Join(dir, s.Name(), "jetstream")); err != nil {
			t.Errorf("store of %s: %v", s.Name(), err)
		}
	}
	if _, err := Start(ctx, dir); !errors.Is(err, embedded.ErrStoreInUse) {
		t.Errorf("a second cluster on the same store: %v, want %v", err, embedded.ErrStoreInUse)
	}

	leader := ask(t, nc, "$JS.API.STREAM.INFO.S", "").Cluster.Leader
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
	if a := ask(t, nc, "$JS.API.STREAM.INFO.S", ""); a.State.Messages != 3 {
		t.Errorf("messages = %d, want 3", a.State.Messages)
	}
	c.Close()
	c.Close()
	if !nc.IsClosed() {
		t.Error("connection is still open after Close")
	}
	goleak.VerifyNone(t, before)
}

// answer is what the tests read of the server's answers.
type answer struct {
	Error   *nats.APIError
	Cluster struct{ Leader string }
	State   struct{ Messages int }
}

func ask(t *testing.T, nc *nats.Conn, subject, body string) (a answer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	reply, err := nc.RequestWithContext(ctx, subject, []byte(body))
	if err != nil {
		t.Fatalf("ask %s: %v", subject, err)
	}
	if err := json.Unmarshal(reply.Data, &a); err != nil || a.Error != nil {
		t.Fatalf("ask %s: %s, %v", subject, reply.Data, err)
	}
	return a
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
