package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/natscli"
	"github.com/turnlog/turnlog/internal/testing/cell"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/torture"
)

// natsServer is a nats-server process of a cluster.
type natsServer struct {
	t    *testing.T
	name string
	args []string
	url  string

	cmd  *exec.Cmd
	done chan struct{}
	said bytes.Buffer
}

// startServers starts a cluster of three processes with files on disk.
func startServers(t *testing.T) []*natsServer {
	t.Helper()
	dir, err := clitest.Build(t.Context(), "github.com/nats-io/nats-server/v2")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "nats-server")
	ports := freePorts(t, 6)
	var routes []string
	for _, p := range ports[3:] {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", p))
	}
	var all []*natsServer
	for i := range 3 {
		s := &natsServer{t: t, name: fmt.Sprint("s", i+1), url: fmt.Sprintf("nats://127.0.0.1:%d", ports[i])}
		s.args = []string{
			program, "-a", "127.0.0.1", "-p", strconv.Itoa(ports[i]), "-n", s.name, "-js", "-sd", t.TempDir(),
			"--cluster_name", "chaos", "--cluster", routes[i], "--routes", strings.Join(routes, ","),
		}
		s.start()
		t.Cleanup(func() {
			s.kill()
			if t.Failed() {
				t.Logf("%s said:\n%.20000s", s.name, s.said.String())
			}
		})
		all = append(all, s)
	}
	return all
}

func urlsOf(servers []*natsServer) string {
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.url)
	}
	return strings.Join(urls, ",")
}

// await connects to a cluster that was just started and waits until it is complete.
func await(t *testing.T, urls string) *nats.Conn {
	t.Helper()
	var nc *nats.Conn
	eventually(t, "a connection", func(context.Context) bool {
		var err error
		nc, err = nats.Connect(urls, lasting()...)
		return err == nil
	})
	t.Cleanup(nc.Close)
	eventually(t, "three peers and a leader", func(ctx context.Context) bool {
		return ask(ctx, nc, "STREAM.CREATE.READY", []byte(`{"name":"READY","subjects":["ready"],"num_replicas":3}`), &struct{}{})
	})
	return nc
}

// freePorts returns ports that are free now.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var out []int
	for range n {
		var lc net.ListenConfig
		l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()                // held until all are found, so that they differ
		out = append(out, l.Addr().(*net.TCPAddr).Port) //nolint:forcetypeassert // it listens on TCP
	}
	return out
}

func (s *natsServer) start() {
	s.t.Helper()
	s.cmd = exec.CommandContext(context.WithoutCancel(s.t.Context()), s.args[0], s.args[1:]...)
	s.cmd.Stderr = &s.said
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait() // it is killed
		close(done)
	}(s.cmd, s.done)
}

// kill ends the process as kill -9 does.
func (s *natsServer) kill() {
	_ = s.cmd.Process.Signal(syscall.SIGKILL) // unless it has ended
	<-s.done
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not in time", what)
		}
	}
}

// ask sends a request to the JetStream API and reports whether it succeeded.
func ask(ctx context.Context, nc *nats.Conn, what string, body []byte, answer any) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	msg, err := nc.RequestWithContext(ctx, "$JS.API."+what, body)
	if err != nil || bytes.Contains(msg.Data, []byte(`"error":`)) {
		return false
	}
	return json.Unmarshal(msg.Data, answer) == nil
}

// standing is the state of the journal stream: its leader, and whether all replicas are
// up to date.
type standing struct {
	leader string // "": none, or there is no stream yet
	whole  bool
}

func standingOf(ctx context.Context, nc *nats.Conn) (s standing) {
	var names struct {
		Streams []string `json:"streams"`
	}
	if !ask(ctx, nc, "STREAM.NAMES", nil, &names) {
		return s
	}
	i := slices.IndexFunc(names.Streams, func(n string) bool { return strings.HasSuffix(n, "_JOURNAL") })
	if i < 0 {
		return s
	}
	var info struct {
		Cluster struct {
			Leader   string `json:"leader"`
			Replicas []struct {
				Current bool `json:"current"`
			} `json:"replicas"`
		} `json:"cluster"`
	}
	if !ask(ctx, nc, "STREAM.INFO."+names.Streams[i], nil, &info) {
		return s
	}
	s = standing{leader: info.Cluster.Leader, whole: len(info.Cluster.Replicas) == 2}
	for _, r := range info.Cluster.Replicas {
		s.whole = s.whole && r.Current
	}
	return s
}

// TestNothingIsLostWithTheProcessOfALeader repeatedly kills -9 the process that leads the
// journals under load, and restarts it on its files.
func TestNothingIsLostWithTheProcessOfALeader(t *testing.T) {
	t.Parallel()
	servers := startServers(t)
	await(t, urlsOf(servers))
	killed, c := 0, &traffic{t: t}
	r := survives(t.Context(), t, torture.Config{
		Seed: *seed, Duration: *duration, Sessions: max(1, *sessions/2), Servers: &natscli.Flags{Server: urlsOf(servers)}, Replicas: 3,
		Kinds:    []torture.Kind{torture.ConnectionsCut, torture.NodeKilled, torture.WorkerKilled},
		Workload: torture.Workload{Node: actor.Config{Metrics: c}},
		Clients:  []func(context.Context, *cell.Process){func(ctx context.Context, _ *cell.Process) { killed = c.killLeaders(ctx, servers) }},
	})
	t.Logf("%d leaders were killed", killed)
	if killed == 0 || len(r.Faults) < 2 {
		t.Errorf("%d leaders were killed, faults = %v, so this run proves little", killed, r.Faults)
	}
}

// killLeaders kills the leader of the journals, restarts it, and waits until commands are
// handled and it has caught up, since two of three are needed. It repeats that until ctx
// ends, at least once. It fails when the journals have no leader in time.
func (c *traffic) killLeaders(ctx context.Context, servers []*natsServer) (killed int) {
	t := c.t
	nc, err := nats.Connect(urlsOf(servers), lasting()...)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer nc.Close()
	for ctx.Err() == nil || killed == 0 {
		wait := ctx
		if killed == 0 {
			wait = t.Context()
		}
		wait, cancel := context.WithTimeout(wait, patience)
		leader, err := leaderOf(wait, nc, servers)
		cancel()
		if killed > 0 && errors.Is(err, ctx.Err()) {
			return killed // the run is over
		}
		if err != nil {
			t.Errorf("after %d leaders were killed: %v", killed, err)
			return killed
		}
		leader.kill()
		killed++
		<-time.After(500 * time.Millisecond)
		leader.start()
		c.goesOn("after a leader was killed")
	}
	return killed
}

// leaderOf waits until all replicas of the journals are up to date and returns the server
// that leads them. It fails at once if a server has ended, since the replicas cannot catch
// up then.
func leaderOf(ctx context.Context, nc *nats.Conn, servers []*natsServer) (*natsServer, error) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for now := (standing{}); ; now = standingOf(ctx, nc) {
		leads := func(s *natsServer) bool { return s.name == now.leader }
		if i := slices.IndexFunc(servers, leads); now.whole && i >= 0 {
			return servers[i], nil
		}
		for _, s := range servers {
			select {
			case <-s.done:
				return nil, fmt.Errorf("wait for a leader of the journals: the process of %s has ended", s.name)
			default:
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a leader of the journals (%q) with replicas up to date: %w", now.leader, ctx.Err())
		}
	}
}

// TestWaitingForALeaderEnds waits for a leader that is never elected, with running servers
// and with one that has ended.
func TestWaitingForALeaderEnds(t *testing.T) {
	t.Parallel()
	srv, err := embedded.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	nc, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s := &natsServer{name: "s1", done: make(chan struct{})}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := leaderOf(over, nc, []*natsServer{s}); !errors.Is(err, context.Canceled) {
		t.Errorf("without a leader: %v", err)
	}
	close(s.done)
	if _, err := leaderOf(t.Context(), nc, []*natsServer{s}); err == nil || !strings.Contains(err.Error(), "s1 has ended") {
		t.Errorf("with a server that ended: %v", err)
	}
}

// lasting makes a connection reconnect no matter how long its servers are down.
func lasting() []nats.Option {
	return []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond)}
}
