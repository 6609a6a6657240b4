// Package clitest is what the tests of the binaries share: servers to run against, the output
// of a running program, and built binaries.
//
// Most tests execute a binary's root command against an embedded server with a port, and wait
// for output, never for time to pass. Everything is closed when the test ends.
package clitest

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/jetstream"
)

// NoEnv is an environment without variables.
func NoEnv(string) string { return "" }

// Serve starts an in-memory NATS server with a port.
func Serve(t testing.TB) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(t.Context(), embedded.WithListener("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Dial connects to a server.
func Dial(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// Open opens the default cell of a server, provisioned or not.
func Open(t testing.TB, s *embedded.Server) (*jetstream.Cell, *nats.Conn) {
	t.Helper()
	nc := Dial(t, s.ClientURL())
	cell, err := jetstream.Open(nc, "")
	if err != nil {
		t.Fatal(err)
	}
	return cell, nc
}

// Get requests a page and returns the status and the body.
func Get(t testing.TB, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// AwaitPage waits until a page has a text. A program counts what it did only after others can see that.
func AwaitPage(t testing.TB, url, text string) {
	t.Helper()
	tick, late := time.NewTicker(5*time.Millisecond), time.After(Patience)
	defer tick.Stop()
	for {
		_, body := Get(t, url)
		if strings.Contains(body, text) {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s has no %q:\n%s", url, text, body)
		}
	}
}
