package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/internal/testing/clitest"
)

func TestTortureRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--duration", "0s"}, "--duration 0s: use a positive time"},
		{[]string{"--duration", "10ms"}, "use a second or more"},
		{[]string{"--sessions", "0"}, "--sessions 0: use 1 or more"},
		{[]string{"--sessions", "100000"}, "use 1 to 2000"},
		{[]string{"--seed", "-1"}, "use a whole number, 0 or more"},
		{[]string{"--faults", "meteor"}, `"meteor": use one of`},
		{[]string{"--replicas", "3"}, "--replicas is for the servers of --server"},
		{[]string{"--server", "127.0.0.1:1", "--faults", "server_stopped"}, "only servers in this process"},
		{[]string{"-o", "xml"}, "text, json"},
		{[]string{"now"}, "unknown command"},
	} {
		p := prepare(t, strings.NewReader(""), nil).start(t, append([]string{"torture"}, tt.args...)...)
		if code := p.end(t); code != 2 || !strings.Contains(p.err.String(), tt.want) {
			t.Errorf("torture %q exits with %d, want 2 and %q:\n%s", tt.args, code, tt.want, p.err)
		}
	}
}

func TestTortureSaysThatNobodyIsThere(t *testing.T) {
	t.Parallel()
	p := expect(t, 1, "torture", "--server", "127.0.0.1:1")
	if !strings.Contains(p.err.String(), "127.0.0.1:1") {
		t.Errorf("it does not say which address was tried:\n%s", p.err)
	}
}

// TestTortureOfSomebodysServer also ends it early, with an interrupt.
func TestTortureOfSomebodysServer(t *testing.T) {
	t.Parallel()
	srv := clitest.Serve(t)
	nc := clitest.Dial(t, srv.ClientURL())
	begun := make(chan *nats.Msg, 1000)
	if _, err := nc.ChanSubscribe("*.live.cmd.*.*", begun); err != nil {
		t.Fatal(err)
	}
	p := prepare(t, strings.NewReader(""), nil)
	p.start(t, "torture", "--server", srv.ClientURL(), "--duration", "10m", "--sessions", "2", "--nodes", "1", "--workers", "1", "--seed", "5",
		"--faults", "connections_cut", "-o", "json")
	select {
	case m := <-begun:
		t.Logf("first command: %s %.200q", m.Subject, m.Data)
		p.signals <- os.Interrupt
	case code := <-p.code:
		t.Fatalf("exit code %d before a session has begun:\n%s%s", code, p.out, p.err)
	}
	select {
	case code := <-p.code:
		if code != 0 {
			t.Fatalf("exit code %d:\n%s%s", code, p.out, p.err)
		}
	case <-time.After(3 * clitest.Patience):
		t.Fatalf("it does not end:\n%s%s", p.out, p.err)
	}
	dec := json.NewDecoder(strings.NewReader(p.out.String()))
	dec.DisallowUnknownFields()
	var got struct {
		Seed       uint64
		Faults     map[string]int
		Commands   int
		Finished   int `json:"sessions_finished"`
		Total      int `json:"sessions_total"`
		Entries    int
		Calls      int
		Violations map[string]int
		Recovery   struct{ P50, P99, Max int64 } `json:"recovery_ms"`
	}
	if err := dec.Decode(&got); err != nil {
		t.Fatalf("%v in %s", err, p.out)
	}
	if got.Seed != 5 || got.Violations == nil || len(got.Violations) > 0 || got.Total < 2 || got.Finished != got.Total || got.Entries == 0 {
		t.Errorf("it printed %s", p.out)
	}
	msg, err := nc.RequestWithContext(t.Context(), "$JS.API.STREAM.NAMES", nil)
	if err != nil || strings.Contains(strings.ToLower(string(msg.Data)), "torture") {
		t.Errorf("it left something behind: %s, %v", msg.Data, err)
	}
}
