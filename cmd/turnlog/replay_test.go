package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// An interrupt ends a replay while it waits for a model, of a session and of an exported file.
func TestAReplayIsInterrupted(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 8)
	provider := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not see that the client is gone
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(provider.Close)
	url := cellOf(t, node())
	succeed(t, url, "run", "--session", "s", "--model", scripted(t, oneReply), "hello")
	export := filepath.Join(t.TempDir(), "s.jsonl")
	succeed(t, url, "replay", "s", "--export", export)
	if _, err := os.Stat(export); err != nil {
		t.Fatal(err)
	}
	for _, of := range []string{"s", export} {
		p := prepare(t, nil, env{"OPENAI_BASE_URL": provider.URL}).start(t, "replay", of, "--model", "openai:x", "--server", url)
		<-asked
		p.signals <- os.Interrupt
		if code := p.end(t); code != 130 {
			t.Errorf("replay of %s exits with %d: %s", of, code, p.err)
		}
	}
}
