package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/release"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/model/registry"
	"github.com/turnlog/turnlog/tool"
)

// examined is a deployment that the doctor examines.
type examined struct {
	t    *testing.T
	url  string
	srv  *embedded.Server
	conn *nats.Conn
	cell *jetstream.Cell
}

// emptyServer is a server on disk without a deployment, on which the doctor has the permissions of its role.
func emptyServer(t *testing.T, opts ...embedded.Option) *examined {
	t.Helper()
	return serverWith(t, "authorization { %s }", opts...)
}

// serverWith is a server with settings that say where its users belong.
func serverWith(t *testing.T, settings string, opts ...embedded.Option) *examined {
	t.Helper()
	may, err := admin.PermissionsOf(admin.Grant{Roles: []admin.Role{admin.RoleDoctor}, Inbox: "_INBOX_doctor"})
	if err != nil {
		t.Fatal(err)
	}
	users := "users: [ { user: admin, password: p }, { user: doctor, password: p\n" + may.Conf() + "} ]"
	srv, err := embedded.Start(t.Context(), append([]embedded.Option{
		embedded.WithListener("127.0.0.1:0"), embedded.WithStore(t.TempDir()), embedded.WithSettings(fmt.Sprintf(settings, users) + "\nno_auth_user: admin"),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	cell, conn := clitest.Open(t, srv.ClientURL())
	return &examined{t: t, url: srv.ClientURL(), srv: srv, conn: conn, cell: cell}
}

// provisionedOnDisk is a deployment on one server's disk.
func provisionedOnDisk(t *testing.T, opts ...embedded.Option) *examined {
	t.Helper()
	return emptyServer(t, opts...).provisioned()
}

func (p *examined) provisioned() *examined {
	p.t.Helper()
	if err := admin.Of(p.cell).Provision(p.t.Context(), admin.Config{}); err != nil {
		p.t.Fatal(err)
	}
	return p
}

// look runs the doctor and checks that the exit code matches its report.
func (p *examined) look(args ...string) doctorReport {
	p.t.Helper()
	return lookAt(p.t, strings.Replace(p.url, "://", "://doctor:p@", 1), append(args, "--inbox-prefix", "_INBOX_doctor")...)
}

func lookAt(t *testing.T, url string, args ...string) doctorReport {
	t.Helper()
	run := at(t, url, append([]string{"doctor", "-o", "json"}, args...)...)
	code := run.end(t)
	var r doctorReport
	if err := json.Unmarshal([]byte(run.out.String()), &r); err != nil {
		t.Fatalf("turnlog doctor %q exits with %d and prints %s%s: %v", args, code, run.out, run.err, err)
	}
	want := cli.CodeOK
	if slices.ContainsFunc(r.Findings, func(f finding) bool { return f.Severity == "error" }) {
		want = cli.CodeFailed
	}
	if code != want || r.Healthy != (want == cli.CodeOK) || run.err.String() != "" {
		t.Errorf("exit code %d, healthy %t, err %q: want %d", code, r.Healthy, run.err, want)
	}
	for _, f := range r.Findings {
		if f.What == "" || f.Why == "" || f.Do == "" {
			t.Errorf("finding %+v does not say everything", f)
		}
	}
	return r
}

// short summarizes the findings.
func (r doctorReport) short() []string {
	out := []string{}
	for _, f := range r.Findings {
		out = append(out, strings.TrimSpace(f.Severity+" "+f.Check+" "+f.Object))
	}
	slices.Sort(out)
	return out
}

// expect checks the findings, and returns them by check.
func (r doctorReport) expect(t *testing.T, want ...string) map[string]finding {
	t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(append([]string{}, want...), r.short()); diff != "" {
		t.Fatalf("findings (-want +got):\n%s\n%+v", diff, r.Findings)
	}
	out := make(map[string]finding)
	for _, f := range r.Findings {
		out[f.Check] = f
	}
	return out
}

// api makes a request of the server's API.
func (p *examined) api(subject, body string) []byte {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), clitest.Patience)
	defer cancel()
	msg, err := p.conn.RequestWithContext(ctx, "$JS.API."+subject, []byte(body))
	if err != nil || strings.Contains(string(msg.Data), `"error":`) {
		p.t.Fatalf("%s: %v %s", subject, err, msg.Data)
	}
	return msg.Data
}

// aliveNode is a node that answers, holds the tokens of the sessions, and does no work.
func (p *examined) aliveNode(held ...jetstream.HeldToken) {
	p.t.Helper()
	if err := p.cell.Nodes().Answer(p.t.Context(), "aliveNode", "", func() []jetstream.HeldToken { return nil }); err != nil {
		p.t.Fatal(err)
	}
	p.record("aliveNode", held...)
}

// record keeps a node registered until the test ends.
func (p *examined) record(node string, held ...jetstream.HeldToken) {
	p.t.Helper()
	persist(p.t, "the record of a node", func() bool {
		return p.cell.Nodes().Record(p.t.Context(), jetstream.NodeRecord{Node: node, Held: held, Release: release.Version()}) == nil
	})
	p.again(func(ctx context.Context) {
		_ = p.cell.Nodes().Record(ctx, jetstream.NodeRecord{Node: node, Held: held, Release: release.Version()})
	}) // the next one comes soon
}

// again does something every second until the test ends.
func (p *examined) again(do func(context.Context)) {
	ctx, stop := context.WithCancel(p.t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-tick.C:
				do(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
	p.t.Cleanup(func() {
		stop()
		<-stopped
	})
}

const noNodes = "warning no-nodes"

func TestAHealthyDeploymentHasNoFindings(t *testing.T) {
	t.Parallel()
	p := provisionedOnDisk(t)
	greet, err := tool.Func("greet", "Greets.", func(context.Context, struct{}) (string, error) { return "hello", nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Of(p.cell).EnsureQueue(t.Context(), admin.QueueConfig{Name: defaultQueue}); err != nil {
		t.Fatal(err)
	}
	hostOn(t, &cli.Cell{Cell: p.cell, Conn: p.conn}, actor.Config{Models: registry.New(nil).Open}, greet)
	if got := succeed(t, p.url, "run", "--model", scripted(t, oneReply), "hi"); got != "Hello.\n" {
		t.Fatalf("run prints %q", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	defer cancel()
	for tick := time.NewTicker(10 * time.Millisecond); ; { // until the node is on record
		if nodes, err := p.cell.Nodes().List(ctx); err != nil || len(nodes) > 0 {
			break
		}
		<-tick.C
	}
	p.look("--profile", "dev").expect(t)
	text := succeed(t, p.url, "doctor", "--profile", "dev")
	if !strings.HasPrefix(text, fmt.Sprintf("turnlog at %s: 0 errors, 0 warnings (%d streams, 1 node, 1 worker, 1 queue,", p.url, len(strings.Fields(everything())))) {
		t.Errorf("doctor prints %q", text)
	}
	if text = succeed(t, p.url, "doctor"); !strings.Contains(text, "warning: durability-weak (TURNLOG_JOURNAL TURNLOG_INBOX") ||
		!strings.Contains(text, "\n  do:   turnlog doctor --profile dev, if one copy is enough, and else on a cluster: for stream in TURNLOG_JOURNAL TURNLOG_INBOX ") ||
		!strings.Contains(text, "; do nats stream edit $stream --replicas 3 --force; done\n") {
		t.Errorf("without a profile doctor prints %q", text)
	}
}

func TestDoctorNeedsValidFlagsAndADeployment(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--limit", "0"}, {"--patience", "-1s"}, {"--profile", "best"}, {"--assume-sync", "never"}, {"--namespace", "a.b"}, {"now"},
	} {
		expect(t, cli.CodeUsage, append([]string{"doctor", "--server", "127.0.0.1:1"}, args...)...)
	}
	expect(t, cli.CodeFailed, "doctor", "--server", "127.0.0.1:1")
	lookAt(t, clitest.NoJetStream(t)).expect(t, "error jetstream-off")
}

func TestMissingStreamsAreOneFinding(t *testing.T) {
	t.Parallel()
	p := provisionedOnDisk(t)
	p.api("STREAM.DELETE.KV_TURNLOG_AGENTS", "")
	p.api("STREAM.DELETE.TURNLOG_TIMERS", "")
	all := len(strings.Fields(everything()))
	f := p.look("--profile", "dev").expect(t, "error stream-missing TURNLOG_TIMERS KV_TURNLOG_AGENTS")["stream-missing"]
	if f.Do != "turnlog provision" || f.What != fmt.Sprintf("2 of %d streams are missing", all) {
		t.Errorf("finding %+v", f)
	}
	run := at(t, p.url, "doctor", "--profile", "dev")
	if run.end(t); !strings.Contains(run.out.String(), fmt.Sprintf(": 1 error, 0 warnings (%d streams, not examined: nodes, workers, queues, sessions at work; ", all-2)) {
		t.Errorf("doctor prints %q", run.out)
	}
	succeed(t, p.url, "provision")
	p.look("--profile", "dev").expect(t, noNodes)
}

// A blob of the doctor's would have a restore refuse to begin again.
func TestADeploymentWhoseRestoreWasInterruptedIsNotWrittenTo(t *testing.T) {
	t.Parallel()
	p := provisionedOnDisk(t)
	p.change("TURNLOG_JOURNAL", map[string]any{"metadata": map[string]string{"turnlog_restoring": "B1"}})
	p.api("CONSUMER.DELETE.TURNLOG_RUN.drivers", "")
	f := p.look("--profile", "dev").expect(t, "error restore-unfinished TURNLOG_JOURNAL")["restore-unfinished"]
	if f.Do != "turnlog restore, with the backup B1" {
		t.Errorf("finding %+v", f)
	}
	if info := p.api("STREAM.INFO.OBJ_TURNLOG_BLOBS", ""); !strings.Contains(string(info), `"messages":0,`) {
		t.Errorf("the doctor stored something: %s", info)
	}
}

func TestAMissingOrDamagedTicketKeyIsReported(t *testing.T) {
	t.Parallel()
	p := provisionedOnDisk(t)
	p.api("STREAM.DELETE.TURNLOG_KEYS", "")
	p.api("STREAM.CREATE.TURNLOG_KEYS", `{"name":"TURNLOG_KEYS","subjects":["turnlog.key.tickets"],"storage":"file","discard":"new",
		"discard_new_per_subject":true,"max_msgs_per_subject":1,"duplicate_window":100000000,"deny_delete":true,"deny_purge":true}`)
	if f := p.look("--profile", "dev").expect(t, "error ticket-key", noNodes)["ticket-key"]; f.Do != "turnlog provision" {
		t.Errorf("finding %+v", f)
	}
	if _, err := p.conn.RequestWithContext(t.Context(), "turnlog.key.tickets", []byte("a reply")); err != nil {
		t.Fatal(err)
	}
	if f := p.look("--profile", "dev").expect(t, "error ticket-key", noNodes)["ticket-key"]; !strings.Contains(f.What, "delete the stream TURNLOG_KEYS") {
		t.Errorf("finding %+v", f)
	}
	p.api("STREAM.DELETE.TURNLOG_KEYS", "")
	succeed(t, p.url, "provision")
	p.look("--profile", "dev").expect(t, noNodes)
}

func TestAFullStoreIsReported(t *testing.T) {
	t.Parallel()
	p := provisionedOnDisk(t, embedded.WithSettings("jetstream { max_file_store: 16MB }"))
	p.look("--profile", "dev").expect(t, noNodes)
	p.api("STREAM.CREATE.FILL", `{"name":"FILL","subjects":["fill"],"storage":"file"}`)
	for _, size := range []int{512 << 10, 8 << 10, 32} {
		for full := false; !full; {
			msg, err := p.conn.RequestWithContext(t.Context(), "fill", make([]byte, size))
			if err != nil {
				t.Fatal(err)
			}
			full = strings.Contains(string(msg.Data), `"error"`)
		}
	}
	if f := p.look("--profile", "dev").expect(t, "error store-unwritable BLOBS", noNodes)["store-unwritable"]; !strings.HasPrefix(f.Do, "make room: turnlog gc, ") {
		t.Errorf("finding %+v", f)
	}
	p.api("STREAM.PURGE.FILL", "")
	p.look("--profile", "dev").expect(t, noNodes)
}

// The account has room for little more than the cell.
func TestALimitOfTheAccountIsReportedBeforeItIsReached(t *testing.T) {
	t.Parallel()
	p := serverWith(t, "accounts { LIMITED { %s, jetstream { max_file: 32MB, max_streams: 24, max_consumers: 100 } } }").provisioned()
	f := p.look("--profile", "dev").expect(t, "warning account-limit streams", noNodes)["account-limit"]
	if !strings.Contains(f.What, "of its 24 streams") {
		t.Errorf("finding %+v", f)
	}
	p.api("STREAM.CREATE.FILL", `{"name":"FILL","subjects":["fill"],"storage":"file"}`)
	for range 28 {
		if _, err := p.conn.RequestWithContext(t.Context(), "fill", make([]byte, 1<<20-1000)); err != nil {
			t.Fatal(err)
		}
	}
	p.look("--profile", "dev").expect(t, "warning account-limit streams", "warning account-limit storage", noNodes)
}

// Only the monitoring port of a server shows which streams take no writes.
func TestWhatAServerSaysOfItsStreamsIsReported(t *testing.T) {
	t.Parallel()
	p := provisionedOnDisk(t)
	monitor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.String() {
		case "/varz":
			_, _ = io.WriteString(w, `{"server_name":"`+p.srv.Name()+`","jetstream":{"config":{"sync_always":true}}}`)
		case "/healthz?details=true":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"status":"error","status_code":503,"errors":[
				{"type":"STREAM","account":"$G","stream":"TURNLOG_INBOX","error":"stream write error: no space left on device"},
				{"type":"STREAM","account":"$G","stream":"OTHER","error":"stream write error"}]}`)
		default:
			t.Errorf("the doctor asks for %s", r.URL)
		}
	}))
	defer monitor.Close()
	f := p.look("--profile", "dev", "--monitor", monitor.URL).expect(t, "error store-unwritable TURNLOG_INBOX", noNodes)["store-unwritable"]
	if !strings.Contains(f.What, "no space left on device") {
		t.Errorf("finding %+v", f)
	}
}

func TestAnOverlappingStreamIsNamed(t *testing.T) {
	t.Parallel()
	p := provisionedOnDisk(t)
	p.api("STREAM.DELETE.TURNLOG_TIMERS", "")
	p.api("STREAM.CREATE.MINE", `{"name":"MINE","subjects":["turnlog.due.*"],"storage":"file"}`)
	f := p.look("--profile", "dev").expect(t, "error subject-overlap TURNLOG_TIMERS")["subject-overlap"]
	if !strings.Contains(f.What, "its subject turnlog.due.* is one of stream MINE") || !strings.HasPrefix(f.Do, "nats stream rm MINE") {
		t.Errorf("finding %+v", f)
	}
}

// change updates settings of a stream.
func (p *examined) change(stream string, set map[string]any) {
	p.t.Helper()
	var info struct {
		Config map[string]any `json:"config"`
	}
	if err := json.Unmarshal(p.api("STREAM.INFO."+stream, ""), &info); err != nil {
		p.t.Fatal(err)
	}
	maps.Copy(info.Config, set)
	b, err := json.Marshal(info.Config)
	if err != nil {
		p.t.Fatal(err)
	}
	p.api("STREAM.UPDATE."+stream, string(b))
}

func TestEveryDifferentSettingIsReportedWithItsChange(t *testing.T) {
	t.Parallel()
	p := provisionedOnDisk(t)
	p.change("TURNLOG_INBOX", map[string]any{"max_age": time.Hour, "allow_direct": true, "deny_delete": true})
	r := p.look("--profile", "dev")
	r.expect(t, "error stream-differs TURNLOG_INBOX", "error stream-differs TURNLOG_INBOX", "error stream-differs TURNLOG_INBOX", noNodes)
	changes := make(map[string]string)
	for _, f := range r.Findings {
		changes[f.What] = f.Do
	}
	edit := "nats stream info TURNLOG_INBOX --json | jq '.config | %s' > TURNLOG_INBOX.json && nats stream edit TURNLOG_INBOX --config TURNLOG_INBOX.json --force"
	for what, do := range map[string]string{
		"max_age is 1h0m0s, must be 0s":       fmt.Sprintf(edit, ".max_age=0"),
		"allow_direct is true, must be false": fmt.Sprintf(edit, ".allow_direct=false"),
	} {
		if changes[what] != do {
			t.Errorf("%s: %q, want %q", what, changes[what], do)
		}
	}
	if do := changes["deny_delete is true, must be false"]; !strings.HasPrefix(do, "deny_delete cannot be changed on a stream that exists") {
		t.Errorf("deny_delete: %q", do)
	}
	p = provisionedOnDisk(t)
	p.change("TURNLOG_INBOX", map[string]any{"max_age": time.Hour})
	p.change("TURNLOG_INBOX", map[string]any{"max_age": 0}) // what .max_age=0 says
	p.look("--profile", "dev").expect(t, noNodes)
}

func TestConsumersAreExamined(t *testing.T) {
	t.Parallel()
	p := provisionedOnDisk(t)
	if err := admin.Of(p.cell).EnsureQueue(t.Context(), admin.QueueConfig{Name: "slow", AckWait: time.Hour, Concurrency: 3}); err != nil {
		t.Fatal(err)
	}
	p.look("--profile", "dev").expect(t, noNodes) // a queue's lease and concurrency are its own
	p.api("CONSUMER.PAUSE.TURNLOG_TASKS.q_slow", `{"pause_until":"2100-01-01T00:00:00Z"}`)
	p.api("CONSUMER.DELETE.TURNLOG_RUN.drivers", "")
	f := p.look("--profile", "dev").expect(t, noNodes,
		"error consumer-paused TURNLOG_TASKS > q_slow", "error consumer-missing TURNLOG_RUN > drivers")
	if do := f["consumer-paused"].Do; do != "nats consumer resume TURNLOG_TASKS q_slow --force" {
		t.Errorf("to resume: %s", do)
	}
	p.api("CONSUMER.CREATE.TURNLOG_RUN.drivers", `{"stream_name":"TURNLOG_RUN","config":{"name":"drivers","durable_name":"drivers","ack_policy":"explicit","ack_wait":1000000000,"max_deliver":-1,"max_ack_pending":-1,"max_waiting":1048576}}`)
	p.api("CONSUMER.PAUSE.TURNLOG_TASKS.q_slow", `{}`)
	x := p.look("--profile", "dev").expect(t, noNodes, "error consumer-differs TURNLOG_RUN > drivers")["consumer-differs"]
	if x.What != "ack_wait is 1s, must be 12s" || x.Do != "stop the nodes, nats consumer rm TURNLOG_RUN drivers --force, turnlog provision, and start them again" {
		t.Errorf("finding %+v", x)
	}
	p.api("CONSUMER.DELETE.TURNLOG_RUN.drivers", "")
	succeed(t, p.url, "provision")
	p.look("--profile", "dev").expect(t, noNodes)
}

func TestMissingPermissionsAreReported(t *testing.T) {
	t.Parallel()
	users := `authorization { users: [
		{ user: admin, password: a }
		{ user: blind, password: b, permissions: { publish: { deny: ["$JS.API.STREAM.INFO.TURNLOG_INBOX", "$JS.API.STREAM.INFO.KV_TURNLOG_MEMORY"] } } }
		{ user: deaf, password: d, permissions: { publish: { deny: "$JS.API.STREAM.MSG.GET.TURNLOG_RUN" } } }
	] }`
	srv, err := embedded.Start(t.Context(), embedded.WithListener("127.0.0.1:0"), embedded.WithStore(t.TempDir()), embedded.WithSettings(users))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	as := func(user, password string) string {
		return strings.Replace(srv.ClientURL(), "nats://", "nats://"+user+":"+password+"@", 1)
	}
	succeed(t, as("admin", "a"), "provision", "--profile", "dev")
	lookAt(t, as("admin", "a"), "--profile", "dev").expect(t, noNodes)
	lookAt(t, as("blind", "b"), "--profile", "dev").expect(t,
		"error permission-missing $JS.API.STREAM.INFO.KV_TURNLOG_MEMORY $JS.API.STREAM.INFO.TURNLOG_INBOX")
	f := lookAt(t, as("deaf", "d"), "--profile", "dev").expect(t, "error permission-missing $JS.API.STREAM.MSG.GET.TURNLOG_RUN")
	if m := f["permission-missing"]; m.What != "this user may not publish to 1 of the subjects that the doctor needs" || !strings.HasPrefix(m.Do, "allow publish on them for this user, or connect as a user who has it") {
		t.Errorf("finding %+v", m)
	}
}

// freePort returns an address with a free port.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
