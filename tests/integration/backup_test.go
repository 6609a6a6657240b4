package integration

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/faultproxy"
)

// last returns the last sequence of a stream; 0: there is none.
func (d *deployment) last(ctx context.Context, stream string) uint64 {
	var info struct {
		State struct {
			Last uint64 `json:"last_seq"`
		}
	}
	m, err := d.nc.RequestWithContext(ctx, "$JS.API.STREAM.INFO."+stream, nil)
	if err != nil || json.Unmarshal(m.Data, &info) != nil {
		return 0
	}
	return info.State.Last
}

// TestACellThatIsLostWithItsDisksComesBack backs a cell up while sessions work and a node is killed. Then sessions continue, one
// is erased, one begins, and the server is killed and its disk is lost. The first restore is killed, too.
func TestACellThatIsLostWithItsDisksComesBack(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	store, dir, root := filepath.Join(t.TempDir(), "store"), t.TempDir(), t.TempDir()
	d := deployIn(t, store)
	key, nightly, heads := filepath.Join(dir, "seal.key"), filepath.Join(dir, "nightly"), filepath.Join(dir, "heads.jsonl")
	must := func(d *deployment, want int, program string, args ...string) string {
		t.Helper()
		if program == "turnlog" && args[0] != "seal" || program == "observer" {
			args = append(args, "--server", "nats://"+d.addr)
		}
		out, errs, code := d.run(program, args...)
		if code != want {
			t.Fatalf("%s %v = %d, want %d\n%s%s", program, args, code, want, out, errs)
		}
		return out
	}
	must(d, 0, "turnlog", "seal", "init", key)
	worker := d.workers(1, root)[0]
	n1, n2 := d.node("n1", "--seal-key", key), d.node("n2", "--seal-key", key)

	must(d, 0, "turnlog", "run", "A secret", "--session", "secret", "--seal", "--seal-key", key, "--model", d.script("replies: [{text: I keep it.}]"))
	waits := d.open(ctx, "waits", `
replies:
  - calls: [{name: shell_exec, input: {argv: ["sh", "-c", "touch started; exec sleep 600"]}}]
  - text: "{{(index .Results 0).Text}}"
`)
	d.eventually("the call runs", func(context.Context) bool {
		_, err := os.Stat(filepath.Join(root, "started"))
		return err == nil
	})

	// Sessions work until stop is closed.
	const script = "{replies: [{text: Yes.}], repeat: true}"
	var load sync.WaitGroup
	stop, turns := make(chan struct{}), make(chan struct{}, 500)
	ids := []content.SessionID{"load-0", "load-1", "load-2", "load-3"}
	for _, id := range ids {
		s := d.open(ctx, id, script)
		load.Go(func() {
			for {
				if _, err := s.Next(ctx); err != nil {
					t.Errorf("%s: %v", id, err)
					return
				}
				select {
				case <-stop:
					return
				case turns <- struct{}{}:
				}
				if err := s.Send(ctx, events.Steer, content.UserText("more")); err != nil {
					t.Errorf("%s: %v", id, err)
					return
				}
			}
		})
	}
	some := func(n int) {
		for range n {
			select {
			case <-turns:
			case <-ctx.Done():
				t.Fatal("the sessions do not work")
			}
		}
	}
	some(40)
	making := d.start("turnlog", "backup", nightly, "--server", "nats://"+d.addr)
	n1.kill()
	<-making.done
	if making.err != nil {
		t.Fatalf("backup: %v\n%s", making.err, making.output())
	}
	for range len(turns) { // these may be in the backup
		<-turns
	}
	some(40)
	close(stop)
	load.Wait()
	must(d, 0, "turnlog", "backup", "check", nightly)

	d.eventually("the sealed session rests", func(ctx context.Context) bool {
		last, err := d.cell.Journal().Last(ctx, "secret")
		return err == nil && slices.Contains(last.Entry.Kinds(), events.KindParked)
	})
	must(d, 0, "turnlog", "sessions", "erase", "secret", "--reason", "request 7")
	must(d, 0, "turnlog", "run", "Hello", "--session", "later", "--model", d.script("replies: [{text: Hello.}]"))
	if err := os.WriteFile(heads, []byte(must(d, 0, "observer", "heads")), 0o600); err != nil {
		t.Fatal(err)
	}
	d.server.kill()
	n2.kill()
	worker.kill()
	if err := os.RemoveAll(store); err != nil {
		t.Fatal(err)
	}

	e := deployIn(t, t.TempDir())
	network := faultproxy.New()
	t.Cleanup(network.Close)
	slow, err := network.Listen(ctx, "127.0.0.1:0", e.addr)
	if err != nil {
		t.Fatal(err)
	}
	network.Throttle(50_000)
	restoring := e.start("turnlog", "restore", nightly, "--anchor", heads, "--server", "nats://"+slow)
	e.eventually("a stream is restored", func(ctx context.Context) bool { return e.last(ctx, "TURNLOG_INBOX") > 0 })
	restoring.kill()
	if _, errs, code := e.run("turnlog", "sessions", "ls", "--server", "nats://"+e.addr); code != 1 {
		t.Errorf("an interrupted restore: sessions ls = %d %s", code, errs)
	}
	report := must(e, 0, "turnlog", "restore", nightly, "--anchor", heads)
	for _, want := range []string{"lost: session later, which had ", "lost: entries ", "again: session secret was erased at "} {
		if !strings.Contains(report, want) {
			t.Errorf("restore says nothing of %q:\n%s", want, report)
		}
	}
	e.workers(1, t.TempDir())
	e.node("n3", "--seal-key", key)
	for _, id := range ids {
		must(e, 0, "turnlog", "send", string(id), "again")
		must(e, 0, "turnlog", "wait", string(id))
		must(e, 0, "observer", "verify", string(id))
	}

	// The call that ran is lost: the model sees that, and a person may decide about it.
	e.eventually("the call is a dead letter", func(context.Context) bool {
		return strings.Contains(must(e, 0, "turnlog", "dead", "ls", "waits"), "shell_exec")
	})
	lost := e.until(ctx, waits.ID(), ends)
	if i := slices.IndexFunc(lost, func(ev events.Event) bool {
		r, ok := ev.(events.ToolResultReceived)
		return ok && r.Result.Status == content.StatusUnknown
	}); i < 0 {
		t.Errorf("the call has no unknown outcome: %v", lost)
	}

	// What the restore lost is not a fault, and there are no faults.
	out, errs, code := e.run("observer", "verify", "--anchor", heads, "-o", "json", "--server", "nats://"+e.addr)
	kinds := map[verdict.Kind]int{}
	for lines := json.NewDecoder(strings.NewReader(out)); lines.More(); {
		var v verdict.Verdict
		if err := lines.Decode(&v); err != nil {
			t.Fatal(err)
		}
		for _, f := range v.Faults {
			kinds[f.Kind]++
			if f.Kind != verdict.Restored && v.Session != "secret" {
				t.Errorf("%s: %s", v.Session, f)
			}
		}
		if v.Session == "later" && (len(v.Faults) != 1 || v.Faults[0].Kind != verdict.Restored) {
			t.Errorf("the session that is not in the backup: %v", v.Faults)
		}
	}
	if code != cli.CodeUnjudged || kinds[verdict.Restored] < 2 {
		t.Errorf("verify = %d %v\n%s", code, kinds, errs)
	}
	for _, keys := range [][]string{nil, {"--seal-key", key}} {
		if got := must(e, cli.CodeGone, "observer", append([]string{"verify", "secret"}, keys...)...); !strings.Contains(got, "request 7") || !strings.Contains(got, "sealed for good") {
			t.Errorf("verify of the erased session: %s", got)
		}
	}
}
