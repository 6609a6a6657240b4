package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/release"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/cluster"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// everything names all streams, as a finding does.
func everything() string {
	var names []string
	for _, r := range admin.Topology("turnlog", admin.Config{}) {
		names = append(names, r.Stream)
	}
	return strings.Join(names, " ")
}

func TestWeakDurabilityIsReportedByProfile(t *testing.T) {
	t.Parallel()
	lazy, synced := freePort(t), freePort(t)
	p := provisionedOnDisk(t, embedded.WithSettings("http: "+lazy))
	copies := "error durability-weak " + everything()
	p.look("--profile", "dev").expect(t, noNodes)
	p.look("--profile", "standard").expect(t, noNodes, copies)
	p.look("--profile", "audit", "--assume-sync", "always").expect(t, noNodes, copies)
	p.look("--profile", "audit").expect(t, noNodes, copies, "error durability-unseen "+p.srv.Name())
	p.look("--profile", "audit", "--monitor", "http://"+synced).expect(t, noNodes, copies,
		"error durability-unseen "+p.srv.Name(), "warning monitor-silent")
	f := p.look("--profile", "audit", "--monitor", "http://"+lazy).expect(t, noNodes, copies, "error durability-weak server "+p.srv.Name())
	if w := f["durability-weak"]; w.What != "sync_interval is 2m0s, profile audit needs always" ||
		w.Do != "in the configuration of server "+p.srv.Name()+" set jetstream { sync_interval: always }, and restart it" {
		t.Errorf("finding %+v", w)
	}
	p = provisionedOnDisk(t, embedded.WithSettings("http: "+synced), embedded.WithSync())
	p.look("--profile", "audit", "--monitor", "http://"+synced+"/").expect(t, noNodes, copies)

	p = emptyServer(t)
	succeed(t, p.url, "provision", "--memory")
	w := p.look("--profile", "dev").expect(t, noNodes, copies)["durability-weak"]
	if w.What != "storage is memory, profile dev needs file" || !strings.HasPrefix(w.Do, "storage cannot be changed on a stream that exists") {
		t.Errorf("finding %+v", w)
	}
}

func TestNodesThatRunScriptsAreReportedByProfile(t *testing.T) {
	t.Parallel()
	p := provisionedOnDisk(t)
	p.aliveNode()
	copies := "error durability-weak " + everything()
	p.look("--profile", "standard").expect(t, copies)
	p.again(func(ctx context.Context) {
		_ = p.cell.Nodes().Record(ctx, jetstream.NodeRecord{Node: "scripts", Scripted: true, Release: release.Version()})
	})
	p.must(p.cell.Nodes().Answer(t.Context(), "scripts", "", func() []jetstream.HeldToken { return nil }))
	p.must(p.cell.Nodes().Record(t.Context(), jetstream.NodeRecord{Node: "scripts", Scripted: true, Release: release.Version()}))
	p.look("--profile", "dev").expect(t)
	for _, profile := range []string{"standard", "audit"} {
		f := p.look("--profile", profile, "--assume-sync", "always").expect(t, copies, "warning node-scripted scripts")["node-scripted"]
		if !strings.HasPrefix(f.Do, "driver-node --scripted=false") {
			t.Errorf("finding %+v", f)
		}
	}
}

func TestNodesWithDifferentToolsAreReported(t *testing.T) {
	t.Parallel()
	p := provisionedOnDisk(t)
	p.aliveNode()
	p.must(p.cell.Nodes().Answer(t.Context(), "other", "", func() []jetstream.HeldToken { return nil }))
	p.record("other")
	p.look("--profile", "dev").expect(t)
	own := p.cell.Offers("other", task.LocalQueue)
	advertise := func() error {
		return own.Advertise(t.Context(), task.Offer{Tools: []tool.Spec{{Name: "b"}, {Name: "a"}}})
	}
	p.again(func(context.Context) { _ = advertise() })
	p.must(advertise())
	f := p.look("--profile", "dev").expect(t, "warning node-tools-differ")["node-tools-differ"]
	if want := "nodes have different tools of their own: other: a, b; aliveNode: none"; f.What != want {
		t.Errorf("what: %q, want %q", f.What, want)
	}
}

func TestSeveralReleasesAreReported(t *testing.T) {
	t.Parallel()
	p := provisionedOnDisk(t)
	p.aliveNode()
	tools := []tool.Spec{{Name: "a"}}
	offer := func(o jetstream.Offer) {
		p.must(p.cell.Catalog().Advertise(t.Context(), o))
		p.again(func(ctx context.Context) { _ = p.cell.Catalog().Advertise(ctx, o) })
	}
	offer(jetstream.Offer{Worker: "w-1", Queue: "tools", Tools: tools, Release: release.Version()})
	p.look("--profile", "dev").expect(t)
	offer(jetstream.Offer{Worker: "w-2", Queue: "tools", Tools: tools, Release: "v1.2.3"})
	f := p.look("--profile", "dev").expect(t, "warning releases-differ")["releases-differ"]
	if want := "programs of several releases run: devel: node aliveNode, worker w-1; v1.2.3: worker w-2"; f.What != want {
		t.Errorf("what: %q, want %q", f.What, want)
	}
}

// The user's permissions may be those of an earlier release, which had one stream less.
func TestADeniedStreamIsNamed(t *testing.T) {
	t.Parallel()
	const create = `$JS.API.STREAM.CREATE.TURNLOG_SEALS`
	srv, err := embedded.Start(t.Context(), embedded.WithListener("127.0.0.1:0"), embedded.WithStore(t.TempDir()),
		embedded.WithSettings(`authorization { users: [ { user: admin, password: p, permissions: { publish: { deny: "`+create+`" } } } ] }
			no_auth_user: admin`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	for _, profile := range []string{"standard", "dev"} {
		run := at(t, srv.ClientURL(), "provision", "--profile", profile)
		want := `provision turnlog: this user may not publish to "` + create + `"` + "\n"
		if code := run.end(t); code != cli.CodeFailed || !strings.HasSuffix(run.err.String(), want) {
			t.Errorf("%s: code %d, %s", profile, code, run.err)
		}
	}
}

func TestProvisioningByProfile(t *testing.T) {
	t.Parallel()
	p := emptyServer(t)
	run := at(t, p.url, "provision", "--profile", "standard")
	if code := run.end(t); code != cli.CodeFailed || !strings.Contains(run.err.String(), "3 copies need a cluster of as many servers") {
		t.Errorf("one server: code %d, %s", code, run.err)
	}
	for range 2 {
		if got := succeed(t, p.url, "provision", "--profile", "dev"); got != "turnlog is ready at "+p.url+"\n" {
			t.Errorf("provision prints %q", got)
		}
	}
	run = at(t, p.url, "provision", "--profile", "standard")
	if code := run.end(t); code != cli.CodeFailed || !strings.Contains(run.err.String(), "TURNLOG_JOURNAL: num_replicas is 1, must be 3") ||
		!strings.Contains(run.err.String(), `"turnlog doctor --profile standard" says how to change each`) {
		t.Errorf("dev to standard: code %d, %s", code, run.err)
	}
	expect(t, cli.CodeUsage, "provision", "--server", p.url, "--profile", "dev", "--memory")
	expect(t, cli.CodeUsage, "provision", "--server", p.url, "--profile", "standard", "--replicas", "2")
	if printed := expect(t, cli.CodeUsage, "provision", "--server", p.url, "--replicas", "0").err.String(); !strings.Contains(printed, "--replicas 0: use 1 or more") {
		t.Errorf("no copies: %s", printed)
	}
}

func TestAClusterByProfile(t *testing.T) {
	t.Parallel()
	c, err := cluster.Start(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	url := c.ClientURL()
	persist(t, "streams on a cluster that has just begun", func() bool { return at(t, url, "provision", "--profile", "standard").end(t) == cli.CodeOK })
	succeed(t, url, "provision", "--profile", "standard")
	succeed(t, url, "provision", "--profile", "dev") // stronger is fine
	lookAt(t, url, "--profile", "standard").expect(t, noNodes)
	run := at(t, url, "provision", "--profile", "audit")
	if code := run.end(t); code != cli.CodeFailed || !strings.Contains(run.err.String(), "--assume-sync always") {
		t.Errorf("unknown sync: code %d, %s", code, run.err)
	}
	succeed(t, url, "provision", "--profile", "audit", "--assume-sync", "always")
	var names []string
	for _, s := range c.Servers() {
		names = append(names, s.Name())
	}
	lookAt(t, url, "--profile", "audit").expect(t, noNodes, "error durability-unseen "+strings.Join(names, " "))
	lookAt(t, url, "--profile", "audit", "--assume-sync", "always").expect(t, noNodes)

	c.Stop(2)
	ctx, cancel := context.WithTimeout(t.Context(), 2*clitest.Patience)
	defer cancel()
	for seen := 0; seen == 0; {
		for _, f := range lookAt(t, url, "--profile", "standard").Findings {
			if f.Check == "replica-behind" && strings.HasSuffix(f.What, "on server "+names[2]+" cannot be reached") {
				seen++
			}
		}
		if ctx.Err() != nil {
			t.Fatal("a server that is down is not reported")
		}
	}
}

func TestClocksOfNodesAreCompared(t *testing.T) {
	t.Parallel()
	p := provisionedOnDisk(t)
	p.aliveNode()
	p.look("--profile", "dev").expect(t)
	late := time.Now().Add(-time.Minute).UnixNano()
	record := append([]byte{0x83, 0xa1, 'n', 0xa4, 'l', 'a', 't', 'e', 0xa1, 'h', 0x90, 0xa1, 'a', 0xd3},
		byte(late>>56), byte(late>>48), byte(late>>40), byte(late>>32), byte(late>>24), byte(late>>16), byte(late>>8), byte(late))
	if _, err := p.conn.RequestWithContext(t.Context(), "$KV.TURNLOG_NODES.late", record); err != nil {
		t.Fatal(err)
	}
	f := p.look("--profile", "dev").expect(t, "error clock-skew late")["clock-skew"]
	if !strings.Contains(f.What, "the clock of node late is 1m0") || !strings.Contains(f.What, "behind the server's") {
		t.Errorf("finding %+v", f)
	}
}

func TestAServerWithoutAMonitoringPortIsReported(t *testing.T) {
	t.Parallel()
	url := natstest.Serve(t).ClientURL()
	succeed(t, url, "provision")
	lookAt(t, url, "--profile", "dev", "--monitor", "http://"+freePort(t)).expect(t, noNodes, "warning monitor-silent")
}
