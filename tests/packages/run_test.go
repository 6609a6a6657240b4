package packages

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnlog/turnlog/internal/testing/clitest"
)

// cell is a deployment of a file, as processes of this machine.
type cell struct {
	bin     string
	hosts   *strings.Replacer // the file's hosts, ports and folders → those of this test
	servers []string          // URLs of the monitoring ports
	env     []string
}

// password is that of every user.
const password = "p-0123456789abcdef"

// TestTheDeploymentsRun starts three servers with the configuration in docs/deploy, and on them the programs with
// the arguments and variables of the containers. Sessions run, and the servers report their calls as KEDA counts them.
func TestTheDeploymentsRun(t *testing.T) {
	t.Parallel()
	for file, names := range map[string][]string{
		"compose":    {"nats-1", "nats-2", "nats-3", "provision", "node", "worker", "gateway", "monitor"},
		"kubernetes": {"turnlog-nats", "turnlog-nats", "turnlog-nats", "turnlog-provision-1", "turnlog-node", "turnlog-worker-default", "turnlog-gateway", "turnlog-monitor"},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			containers := composed(t)
			if file == "kubernetes" {
				containers = pods(manifests(t, read(t, manifestFile)))
			}
			var all []container
			for _, name := range names {
				if containers[name].name == "" {
					t.Fatalf("%s has no %s", file, name)
				}
				all = append(all, containers[name])
			}
			try(t, start(t, built(t), all[:3], string(read(t, accountsFile))), all[3], all[4], all[5], all[6], all[7])
		})
	}
}

// try runs sessions with more calls than a worker has slots. They must not run twice, so they are stored, and counted.
func try(t *testing.T, c *cell, provision, node, worker, gateway, monitor container) {
	t.Helper()
	c.await(t, provision)
	model := filepath.Join(t.TempDir(), "script.yaml")
	const calls = 6
	script := "replies:\n  - calls: [{name: hold, input: {}}]\n  - text: \"It said {{(index .Results 0).Text}}.\"\n"
	if err := os.WriteFile(model, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	held, release := make(chan struct{}, calls), make(chan struct{})
	tool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, `{"description": "Waits."}`)
			return
		}
		held <- struct{}{}
		<-release
		_, _ = fmt.Fprint(w, "done")
	}))
	t.Cleanup(tool.Close)

	// What differs from the file: this model and this tool.
	ready(t, c.start(t, node, "--scripted=true"), `"http":"`)
	ready(t, c.start(t, worker, "--http-tool=hold="+tool.URL), `"http":"`)
	listed(t, ready(t, c.start(t, gateway), "http://"))
	for !strings.Contains(c.turnlog(t, gateway, "tools", "ls"), "hold") { // a worker connects its tools while it works
	}
	said := make(chan string, calls)
	for range calls {
		go func() { said <- c.turnlog(t, gateway, "run", "--yes", "--model=scripted:"+model, "hi") }()
	}
	slots, err := strconv.Atoi(worker.flag("slots"))
	if err != nil {
		t.Fatal(err)
	}
	for range slots {
		select {
		case <-held:
		case text := <-said:
			t.Fatal(text)
		}
	}
	c.queued(t, slots, calls-slots)
	close(release)
	for range calls {
		if text := <-said; !strings.Contains(text, "It said done.") {
			t.Error(text)
		}
	}
	c.queued(t, 0, 0)
	clitest.AwaitPage(t, "http://"+c.start(t, monitor).AwaitMatch(t, `"address": ?"(127\.0\.0\.1:\d+)"`)+"/metrics", "\nturnlog_nodes 1\n")
}

// queued waits until the servers report these numbers of running and waiting calls, in the way that the scaler
// nats-jetstream of KEDA 2.21 asks the leader of the consumer. It adds num_pending and num_ack_pending.
func (c *cell) queued(t *testing.T, running, waiting int) {
	t.Helper()
	scaler := scaler(t)
	tick, late := time.NewTicker(20*time.Millisecond), time.After(clitest.Patience)
	defer tick.Stop()
	var seen []string
	for {
		seen = nil
		for _, url := range c.servers {
			_, page := clitest.Get(t, url+"/jsz?acc="+scaler["account"]+"&consumers=true&config=true")
			var jsz struct {
				Accounts []struct {
					Name    string
					Streams []struct {
						Name      string
						Consumers []struct {
							Name    string
							Running int `json:"num_ack_pending"`
							Waiting int `json:"num_pending"`
							Cluster struct{ Leader string }
						} `json:"consumer_detail"`
					} `json:"stream_detail"`
				} `json:"account_details"`
			}
			var varz struct {
				Name string `json:"server_name"`
			}
			_, about := clitest.Get(t, url+"/varz")
			if err := errors.Join(json.Unmarshal([]byte(page), &jsz), json.Unmarshal([]byte(about), &varz)); err != nil {
				t.Fatal(err)
			}
			for _, a := range jsz.Accounts {
				for _, s := range a.Streams {
					for _, q := range s.Consumers {
						if a.Name == scaler["account"] && s.Name == scaler["stream"] && q.Name == scaler["consumer"] && q.Cluster.Leader == varz.Name {
							seen = append(seen, fmt.Sprintf("%d run, %d wait", q.Running, q.Waiting))
						}
					}
				}
			}
		}
		if slices.Equal(seen, []string{fmt.Sprintf("%d run, %d wait", running, waiting)}) {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("the servers report %q, want %d that run and %d that wait", seen, running, waiting)
		}
	}
}

// scaler returns what the ScaledObject tells KEDA.
func scaler(t *testing.T) map[string]string {
	t.Helper()
	objects := manifests(t, read(t, kedaFile))
	if len(objects) != 1 || len(objects[0].Spec.Triggers) != 1 || objects[0].Spec.MinReplicaCount < 1 {
		t.Fatalf("scaler: %+v", objects)
	}
	return objects[0].Spec.Triggers[0].Metadata
}

// start starts three servers. Whether their ports are free shows at the start, so it tries others.
func start(t *testing.T, bin string, servers []container, accounts string) *cell {
	t.Helper()
	for range 10 {
		if c := launch(t, bin, servers, accounts); c != nil {
			return c
		}
	}
	t.Fatal("the servers do not start")
	return nil
}

// launch starts three servers, or returns nil if one of them ends.
func launch(t *testing.T, bin string, servers []container, accounts string) *cell {
	t.Helper()
	late := time.After(clitest.Patience)
	c := &cell{bin: bin, env: os.Environ()}
	var names []string
	dir := t.TempDir()
	replaced := []string{"/work", t.TempDir(), ":8080", "127.0.0.1:0", ":8410", ":0"}
	conf := make([]*strings.Replacer, len(servers))
	for i, s := range servers {
		name := strings.ReplaceAll(s.flag("name"), "$(POD_NAME)", "turnlog-nats-"+strconv.Itoa(i))
		names = append(names, name)
		host := name
		if strings.Contains(s.flag("routes"), name+".") {
			host += ".turnlog-nats" // the pod's in its service
		}
		base := 20_000 + 3*rand.IntN(3_000)
		own := []string{"/data", filepath.Join(dir, name, "data")}
		for n, line := range []string{"port: 4222", "port: 6222", "http: 8222"} {
			here := "127.0.0.1:" + strconv.Itoa(base+n)
			replaced = append(replaced, host+":"+line[len("port: "):], here)
			own = append(own, line, []string{"listen", "listen", "http"}[n]+": '"+here+"'")
		}
		conf[i] = strings.NewReplacer(own...)
		c.servers = append(c.servers, "http://127.0.0.1:"+strconv.Itoa(base+2))
	}
	c.hosts = strings.NewReplacer(replaced...)
	for _, variable := range variables(t, accounts) {
		c.env = append(c.env, variable+"="+password)
	}
	ended := make(chan struct{}, len(servers))
	for i, s := range servers {
		folder := filepath.Join(dir, names[i])
		write(t, filepath.Join(folder, "nats.conf"), conf[i].Replace(string(read(t, natsFile))))
		write(t, filepath.Join(folder, "accounts.conf"), accounts)
		s.argv = slices.Clone(s.argv)
		for n, arg := range s.argv {
			s.argv[n] = strings.NewReplacer("$(POD_NAME)", names[i], "$(TURNLOG_ROUTE_PASSWORD)", password, "route:@", "route:"+password+"@", "/etc/nats", folder).Replace(arg)
		}
		cmd := c.command(t, s)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stopped := make(chan struct{})
		go func() {
			_ = cmd.Wait()
			ended <- struct{}{}
			close(stopped)
		}()
		t.Cleanup(func() {
			_ = cmd.Process.Signal(os.Interrupt)
			<-stopped
		})
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for _, url := range c.servers {
		for !healthy(t, url+"/healthz") {
			select {
			case <-ended:
				return nil
			case <-late:
				t.Fatalf("%s: not healthy", url)
			case <-tick.C:
			}
		}
	}
	return c
}

// command returns a program as a container starts it.
func (c *cell) command(t *testing.T, of container) *exec.Cmd {
	t.Helper()
	var args []string
	for _, arg := range of.argv[1:] {
		args = append(args, c.hosts.Replace(arg))
	}
	cmd := exec.Command(filepath.Join(c.bin, of.argv[0]), args...) //nolint:noctx // it gets a signal to end
	cmd.Env = slices.Clone(c.env)
	for name, value := range of.env {
		cmd.Env = append(cmd.Env, name+"="+c.hosts.Replace(cmp.Or(value, password)))
	}
	return cmd
}

// start starts a program that lasts until the test ends.
func (c *cell) start(t *testing.T, of container, more ...string) *clitest.Screen {
	t.Helper()
	of.argv = append(slices.Clone(of.argv), more...)
	cmd, screen := c.command(t, of), clitest.NewScreen()
	cmd.Stdout, cmd.Stderr = screen, screen
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", of.name, err, screen)
		}
	})
	return screen
}

// turnlog runs a command as the user of the gateway.
func (c *cell) turnlog(t *testing.T, gateway container, args ...string) string {
	t.Helper()
	gateway.argv = append([]string{"turnlog"}, append(args, "--inbox-prefix="+gateway.flag("inbox-prefix"))...)
	out, err := c.command(t, gateway).CombinedOutput()
	if err != nil {
		t.Errorf("%q: %v\n%s", args, err, out)
	}
	return string(out)
}

// await runs a program to its end.
func (c *cell) await(t *testing.T, of container) {
	t.Helper()
	if out, err := c.command(t, of).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", of.name, err, out)
	}
}

// ready waits until a program's probes report that it is ready. before matches what it prints before its port.
func ready(t *testing.T, program *clitest.Screen, before string) (at string) {
	t.Helper()
	at = "http://127.0.0.1:" + program.AwaitMatch(t, before+`[^"/]*:(\d+)`)
	clitest.AwaitPage(t, at+"/readyz", "ok")
	clitest.AwaitPage(t, at+"/healthz", "ok")
	return at
}

// listed asks a gateway for the sessions as its operator.
func listed(t *testing.T, at string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+"/api/sessions", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("the gateway answers %s: %s, %v", resp.Status, body, err)
	}
}

// healthy reports whether a page exists and has the status 200.
func healthy(t *testing.T, url string) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// variables returns those of the servers' configuration.
func variables(t *testing.T, accounts string) (all []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`\$(TURNLOG_\w+)`).FindAllStringSubmatch(string(read(t, natsFile))+accounts, -1) {
		all = append(all, m[1])
	}
	return all
}

func write(t *testing.T, file, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
