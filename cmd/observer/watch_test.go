package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/watch"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/jetstream/signers"
)

// alertsOf parses what a watch printed.
func alertsOf(t *testing.T, text string) (all []watch.Alert) {
	t.Helper()
	for line := range strings.Lines(text) {
		var a watch.Alert
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		all = append(all, a)
	}
	return all
}

// apply has the host of a session apply a policy.
func (w *writer) apply(name string, rules ...events.Rule) {
	w.t.Helper()
	w.append(events.Entry{
		Session: w.state.Session, Cause: fmt.Sprint(name, w.head.Seq), At: w.state.At, Epoch: w.state.Epoch,
		Events: []events.Event{events.PolicyApplied{Policy: events.Policy{Name: name, Digest: name, Rules: [][]events.Rule{rules}}}},
	})
}

func TestAWatchRaisesAlerts(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	w := d.session("s-42")
	shown, stop := d.run("watch", "--from", "1", "--http", "127.0.0.1:0", "--log-level", "info")
	address := "http://" + shown.AwaitMatch(t, `"address": ?"([^"]+)"`)
	w.apply("v1", events.Rule{Tool: "*", Action: events.RuleAsk})
	w.apply("v2", events.Rule{Tool: "*", Action: events.RuleAllow})
	shown.Await(t, `"alert":"widened"`)
	if _, err := d.nc.RequestMsgWithContext(t.Context(), &nats.Msg{Subject: "turnlog.journal.s-42", Data: []byte("not an entry")}); err != nil {
		t.Fatal(err)
	}
	shown.Await(t, `"alert":"fault"`)
	for _, metric := range []string{`turnlog_observer_alerts_total{kind="fault"} 2`, "turnlog_observer_lag_entries 0", `turnlog_observer_alerts_total{kind="widened"} 1`} {
		clitest.AwaitPage(t, address+"/metrics", metric+"\n")
	}
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestAWatchContinuesFromItsCursor(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	w := d.session("s-42")
	w.apply("v1", events.Rule{Tool: "*", Action: events.RuleAsk})
	file := filepath.Join(t.TempDir(), "cursor")
	once := func(args ...string) (int, []watch.Alert) {
		t.Helper()
		code, out, errs := d.observe(append([]string{"watch", "--once", "--cursor", file}, args...)...)
		if all := alertsOf(t, out); (code != 0) != (len(all) > 0) || (errs != "") != (len(all) > 0) {
			t.Errorf("watch = %d %q\n%s", code, errs, out)
		}
		return code, alertsOf(t, out)
	}
	if code, got := once("--from", "1"); code != 0 || got != nil {
		t.Errorf("an intact cell: %d, %+v", code, got)
	}
	if code, got := once(); code != 0 || got != nil {
		t.Errorf("nothing new: %d, %+v", code, got)
	}
	w.apply("v2", events.Rule{Tool: "*", Action: events.RuleAllow})
	w.turn()
	if code, got := once(); code != 1 || len(got) != 1 || got[0].Kind != watch.Widened || got[0].Seq != 4 || got[0].Session != "s-42" {
		t.Errorf("a widened policy: %d, %+v", code, got)
	}
	if at := stored(t, file).At.Position; at != w.head.Guard {
		t.Errorf("the cursor is at %d, want %d", at, w.head.Guard)
	}
	// The command was handled before: only who verified the earlier entries knows.
	w.append(events.Entry{Session: "s-42", Cause: "cmd-3", At: w.state.At, Epoch: 1, Events: []events.Event{events.Warning{Code: "x"}}})
	if code, got := once(); code != 1 || len(got) != 1 || got[0].Kind != watch.Fault || got[0].Fault.Kind != "forged" || got[0].Seq != w.head.Seq {
		t.Errorf("a forged entry: %d, %+v", code, got)
	}
}

// A cell that went back to an older state no longer has the entry of the cursor.
func TestAWatchNoticesThatItsCursorIsGone(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.session("s-42")
	file := filepath.Join(t.TempDir(), "cursor")
	for _, position := range []int{1, 2, 3} { // before the end, at it, beyond it
		at := fmt.Sprintf(`{"namespace":"turnlog","of":"*","at":{"position":%d,"session":"s-42","seq":2,"hash":"%s"}}`, position, strings.Repeat("ab", 32))
		if err := os.WriteFile(file, []byte(at), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := d.observe("watch", "--once", "--cursor", file)
		if all := alertsOf(t, out); code != 1 || len(all) != 1 || all[0].Fault.Kind != "rolled-back" || !strings.Contains(errs, "cursor does not match the journal") {
			t.Errorf("from position %d: watch = %d %q\n%s", position, code, errs, out)
		}
	}
}

// A watch that is killed before it stores its position raises the last alerts again, and misses none.
func TestAKilledWatchMissesNothing(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	w := d.session("s-42")
	w.apply("v1", events.Rule{Tool: "*", Action: events.RuleAsk})
	file := filepath.Join(t.TempDir(), "cursor")
	if code, out, _ := d.observe("watch", "--once", "--from", "1", "--cursor", file); code != 0 || out != "" {
		t.Fatalf("watch = %d %s", code, out)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	shown, stop := d.run("watch", "--cursor", file)
	w.apply("v2", events.Rule{Tool: "*", Action: events.RuleAllow})
	shown.Await(t, `"policy":"v2"`)
	stop()
	if err := os.WriteFile(file, before, 0o600); err != nil { // as if it had been killed
		t.Fatal(err)
	}
	d.session("s-43").apply("v1", events.Rule{Tool: "*", Action: events.RuleDeny}) // while it is stopped
	w.apply("v1", events.Rule{Tool: "*", Action: events.RuleAsk})
	w.apply("v3", events.Rule{Tool: "*", Action: events.RuleAllow})
	again, stop := d.run("watch", "--cursor", file)
	again.Await(t, `"policy":"v3"`)
	stop()
	if all := alertsOf(t, again.String()); len(all) != 2 || all[0].Policy != "v2" || all[1].Policy != "v3" {
		t.Errorf("alerts are %+v", all)
	}
}

func TestAWatchChecksSignatures(t *testing.T) {
	t.Parallel()
	d := deploySigned(t)
	d.session("s-42").turn()
	args := []string{"watch", "--once", "--from", "1", "--keys-root", d.root}
	if code, out, errs := d.observe(args...); code != 0 || out+errs != "" {
		t.Errorf("a signed cell: watch = %d %q\n%s", code, errs, out)
	}
	d.cell = d.cell.Signing(nil)
	d.session("s-43").turn()
	for _, more := range [][]string{nil, {"--keys", d.keys}} {
		code, out, _ := d.observe(append(args, more...)...)
		if all := alertsOf(t, out); code != 1 || len(all) != 1 || all[0].Kind != watch.Unsigned || all[0].Session != "s-43" || all[0].Seq != 1 {
			t.Errorf("an unsigned session: watch = %d\n%s", code, out)
		}
	}
	if code, _, errs := d.observe("watch", "--keys", d.keys); code != 2 || !strings.Contains(errs, "need --keys-root") {
		t.Errorf("keys without a root: watch = %d %q", code, errs)
	}
}

// A thief goes by the version of the directory that did not revoke the key, so the watch looks for newer ones itself.
func TestAWatchLearnsOfARevocation(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.list(l.version(1, nil))
	f := signatureFlags{root: l.root.Public()}
	k, err := f.current(t.Context(), &cli.Cell{Cell: l.deployment.cell})
	if err != nil {
		t.Fatal(err)
	}
	l.publish(l.version(2, &keys.Revocation{At: 1, Stolen: true}))
	k.read = k.read.Add(-signers.Refreshed)
	if err := k.follow(t.Context(), journal.Record{}); err != nil || k.keys().Version != 2 {
		t.Errorf("later: version %d, %v, want 2", k.keys().Version, err)
	}
}

// The root contradicts itself: there is an alert, and a running watch continues with the version that it has.
func TestAWatchRaisesAnAlertIfTheRootContradictsItself(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.list(l.version(1, nil))
	args := []string{"--from", "1", "--keys-root", l.root.Public()}
	shown, stop := l.run("watch", args...)
	w := l.session("s-42")
	w.apply("v1", events.Rule{Tool: "*", Action: events.RuleAsk})
	w.apply("v2", events.Rule{Tool: "*", Action: events.RuleAllow})
	shown.Await(t, `"policy":"v2"`) // it has read the keys
	d := l.version(2, nil)
	d.Keys[0].Name = "node-2"
	l.publish(d)
	w.do(commands.Claim{Node: "n2", Key: l.node.ID(), Keys: 2})
	shown.Await(t, `"kind":"rolled-back"`)
	w.apply("v3", events.Rule{Tool: "*", Action: events.RuleAsk})
	w.apply("v4", events.Rule{Tool: "*", Action: events.RuleAllow})
	shown.Await(t, `"policy":"v4"`)
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	code, out, errs := l.observe(append([]string{"watch", "--once"}, args...)...) // it starts with that version, and continues, too
	if all := alertsOf(t, out); code != 1 || len(all) < 3 || all[0].Fault == nil || all[0].Fault.Kind != "rolled-back" || !strings.Contains(all[0].Fault.What, "version 2 changes key") ||
		all[len(all)-1].Policy != "v4" || !strings.Contains(errs, "alerts were raised") {
		t.Errorf("watch = %d %q\n%s", code, errs, out)
	}
}
