package integration

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// receiver verifies and counts what a real endpoint gets. Every third request fails, except for messages that failed
// before: their senders would wait longer and longer.
type receiver struct {
	t        *testing.T
	verifier *standardwebhooks.Webhook

	mu       sync.Mutex
	requests int
	failed   map[string]bool // by ID, as arrived
	arrived  map[string]bool
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err == nil {
		err = r.verifier.Verify(body, req.Header)
	}
	if err != nil {
		r.t.Errorf("a message is not valid: %v", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	id := req.Header.Get("webhook-id")
	if r.requests%3 == 0 && !r.failed[id] {
		r.failed[id] = true
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	r.arrived[id] = true
}

func (r *receiver) messages() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.arrived)
}

// Two processes send to a receiver that often fails. Each is killed while there is something to send, and one is started again.
func TestWebhooksArriveAlthoughTheirSendersAreKilled(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{t: t, verifier: verifier, failed: map[string]bool{}, arrived: map[string]bool{}}
	at := httptest.NewServer(r)
	t.Cleanup(at.Close)
	d.env = append(d.env, "HOOK_SECRET="+secret)
	config := filepath.Join(t.TempDir(), "hooks.yaml")
	text := fmt.Sprintf("endpoints:\n  - {name: all, url: %q, secret_env: HOOK_SECRET, private: [127.0.0.1]}\n", at.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func() *process {
		return d.start("turnlog", "webhooks", "--server", d.addr, "--endpoints", config)
	}
	follows := func(p *process) func(context.Context) bool {
		return func(context.Context) bool { return strings.Contains(p.output(), "endpoint followed") }
	}
	head, written := journal.Head{}, 0
	write := func(turns int) {
		for range turns {
			written++
			var err error
			head, err = d.cell.Journal().Append(t.Context(), head, events.Entry{
				Session: "s-1", Cause: fmt.Sprint("c-", written), At: content.TimeOf(time.Now()), Epoch: 1,
				Events: []events.Event{events.TurnFinished{Turn: content.TurnID(fmt.Sprint("t", written))}},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	first := start()
	d.eventually("the first process sends", follows(first))
	second := start()
	write(40)
	d.eventually("a message arrives", func(context.Context) bool { return r.messages() > 0 })
	first.kill()
	write(40)
	d.eventually("the second process continues", follows(second))
	second.kill()
	write(40)
	third := start()
	d.eventually("all messages arrive", func(context.Context) bool { return r.messages() == written })
	if strings.Contains(third.output(), secret) || strings.Contains(third.output(), at.URL) {
		t.Errorf("a log has a secret:\n%s", third.output())
	}
}
