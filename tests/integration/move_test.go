package integration

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/faultproxy"
)

// lives reports whether a node would drive the session.
func (d *deployment) lives(ctx context.Context, id content.SessionID) bool {
	r, err := engine.Reader{Journal: d.cell.Journal()}.Read(ctx, id)
	return err == nil && r.Head.Seq > 0 && r.State.Deleted == nil
}

// length returns how many messages the journal of a session has.
func (d *deployment) length(ctx context.Context, id content.SessionID) uint64 {
	all, err := d.cell.Journal().Lengths(ctx)
	if err != nil {
		return 0
	}
	return all[id]
}

// TestASessionIsMovedWhateverKillsTheMover moves sessions between two servers, each with its node. The mover is killed, and at last
// the server that it moves to.
func TestASessionIsMovedWhateverKillsTheMover(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	store, heads := t.TempDir(), filepath.Join(t.TempDir(), "heads.jsonl")
	d, e := deploy(t), deployIn(t, store)
	d.node("n1")
	e.node("n2")
	run := func(d *deployment, want int, program string, args ...string) (stdout, stderr string) {
		t.Helper()
		out, errs, code := d.run(program, append(args, "--server", "nats://"+d.addr)...)
		if code != want {
			t.Fatalf("%s %v = %d, want %d\n%s%s", program, args, code, want, out, errs)
		}
		return out, errs
	}
	phases := []struct {
		id   content.SessionID
		when func(id content.SessionID) bool
	}{
		{"reserved", func(id content.SessionID) bool { return e.length(ctx, id) > 0 }},
		{"left", func(id content.SessionID) bool { return !d.lives(ctx, id) }},
		{"copied", func(id content.SessionID) bool { return e.length(ctx, id) > 5 }},
		{"there", func(id content.SessionID) bool { return e.lives(ctx, id) }},
		{"server", func(id content.SessionID) bool { return e.length(ctx, id) > 5 }},
	}
	for _, p := range phases {
		s := d.open(ctx, p.id, "replies:\n"+strings.Repeat("  - text: Yes.\n", 20))
		for range 8 {
			finished(ctx, t, s)
			if err := s.Send(ctx, events.Steer, content.UserText("more "+strings.Repeat("and more ", 200))); err != nil {
				t.Fatal(err)
			}
		}
		finished(ctx, t, s)
	}
	known, _ := run(d, 0, "observer", "heads")
	if err := os.WriteFile(heads, []byte(known), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs := run(d, 1, "turnlog", "sessions", "move", "left", "--to", "nats://127.0.0.1:1"); !strings.Contains(errs, "--to nats://127.0.0.1:1: ") || !d.lives(ctx, "left") {
		t.Errorf("to nowhere: %s", errs)
	}
	network := faultproxy.New()
	t.Cleanup(network.Close)
	slow, err := network.Listen(ctx, "127.0.0.1:0", e.addr)
	if err != nil {
		t.Fatal(err)
	}
	network.Throttle(40_000)
	for _, p := range phases {
		mover := d.start("turnlog", "sessions", "move", string(p.id), "--server", "nats://"+d.addr, "--to", "nats://"+slow)
		d.eventually(string(p.id), func(context.Context) bool { return p.when(p.id) })
		if p.id == "server" {
			e.server.kill()
		}
		mover.kill()
		if p.id == "server" {
			e = deployIn(t, store)
			e.node("n3")
		}
		if d.lives(ctx, p.id) && e.lives(ctx, p.id) {
			t.Fatalf("%s: it lives in both deployments", p.id)
		}
		run(d, 0, "turnlog", "sessions", "move", string(p.id), "--to", "nats://"+e.addr)
		run(e, 0, "turnlog", "send", string(p.id), "again")
		run(e, 0, "turnlog", "wait", string(p.id))
		if _, errs := run(d, 1, "turnlog", "send", string(p.id), "again"); !strings.Contains(errs, "session "+string(p.id)+" was moved to ") {
			t.Errorf("%s: send to the source: %s", p.id, errs)
		}
		run(d, cli.CodeGone, "observer", "verify", string(p.id))
	}
	run(e, 0, "observer", "verify", "--all", "--anchor", heads, "--require", "anchored")
	moved, _ := run(d, 0, "observer", "heads")
	if err := os.WriteFile(heads, []byte(moved), 0o600); err != nil {
		t.Fatal(err)
	}
	run(e, 0, "observer", "verify", "--anchor", heads, "--require", "anchored") // also of the tombstones
	run(e, 0, "turnlog", "sessions", "move", "left", "--to", "nats://"+d.addr)
	run(d, 0, "turnlog", "send", "left", "back again")
	run(d, 0, "turnlog", "wait", "left")
	d.verify("left")
}
