package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/natstest"
)

// TestTortureOfAnExistingServer also ends it early, with an interrupt.
func TestTortureOfAnExistingServer(t *testing.T) {
	t.Parallel()
	srv := natstest.Serve(t)
	nc := clitest.Dial(t, srv.ClientURL())
	begun := make(chan *nats.Msg, 1000)
	_, err := nc.ChanSubscribe("*.live.cmd.*.*", begun)
	natstest.Must(t, err)
	natstest.Must(t, nc.FlushWithContext(natstest.Within(t, time.Minute)))
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
		Repeated   int `json:"commands_repeated"`
		Finished   int `json:"sessions_finished"`
		Total      int `json:"sessions_total"`
		SetAside   int `json:"sessions_set_aside"`
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
		t.Errorf("it left something: %s, %v", msg.Data, err)
	}
}
