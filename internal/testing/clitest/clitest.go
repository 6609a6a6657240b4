// Package clitest holds the code that tests of the binaries share: connections to servers, the
// output of a running program, and built binaries.
//
// Most tests execute a binary's root command against a server of package natstest with a port, and
// wait for output, never for time to pass. Everything is closed when the test ends. This package
// does not import a server, because linking one would take most of the build time of a test that
// needs none.
package clitest

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/jetstream"
)

// NoEnv is an environment without variables.
func NoEnv(string) string { return "" }

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

// Open opens the default cell of the server at an address, provisioned or not.
func Open(t testing.TB, url string) (*jetstream.Cell, *nats.Conn) {
	t.Helper()
	nc := Dial(t, url)
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

// AwaitPage waits until a page has a text. A program counts an action only after others can see its effect.
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
