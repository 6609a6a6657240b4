package natscli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnlog/turnlog/embedded"
)

func TestConnectionOutlivesItsServerAndLogsIt(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	first, url := serve(t, embedded.WithUser("ann", "hush"))
	core, logs := observer.New(zap.DebugLevel)

	connecting, connected := context.WithCancel(ctx)
	f := newEnvironment(t).flags(t, "-s", strings.Replace(url, "//", "//ann:hush@", 1))
	nc, err := f.Connect(connecting, "test", zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	connected() // the context bounds the first connect only
	defer nc.Close()

	first.Close()
	await(ctx, t, logs, "connection lost")
	if err := nc.Publish("s", nil); err == nil {
		t.Error("Publish succeeded while disconnected")
	}
	second, err := embedded.Start(ctx, embedded.WithListener(strings.TrimPrefix(url, "nats://")), embedded.WithUser("ann", "hush"))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	await(ctx, t, logs, "connection restored")
	if err := nc.FlushWithContext(ctx); err != nil {
		t.Errorf("Flush after the server came back: %v", err)
	}
	for _, e := range logs.All() {
		if text := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(text, "hush") {
			t.Errorf("the log holds a secret: %s", text)
		}
	}
}

// await polls until the log has the message.
func await(ctx context.Context, t *testing.T, logs *observer.ObservedLogs, message string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for logs.FilterMessage(message).Len() == 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("no %q in the log: %v", message, logs.All())
		}
	}
}
