package embedded

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"
)

func TestStreamsSurviveARestartOnTheSameStore(t *testing.T) {
	dir := t.TempDir()
	s := run(t, WithStore(dir))
	nc := connect(t, s)
	createStream(t, nc)
	if a := mustAsk(t, nc, "s", "hello"); a.Seq != 1 {
		t.Fatalf("seq of the first message = %d, want 1", a.Seq)
	}
	s.Close()

	nc = connect(t, run(t, WithStore(dir)))
	if a := mustAsk(t, nc, "$JS.API.STREAM.INFO.S", ""); a.State.Messages != 1 {
		t.Errorf("messages after restart = %d, want 1", a.State.Messages)
	}
	if a := mustAsk(t, nc, "s", "again"); a.Seq != 2 {
		t.Errorf("seq after restart = %d, want 2", a.Seq)
	}
}

func TestInMemoryLeavesNoFiles(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	s := run(t)
	if !s.InMemory() {
		t.Error("InMemory = false without a store")
	}
	createStream(t, connect(t, s))
	s.Close()
	left, err := os.ReadDir(tmp)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 0 {
		t.Errorf("files left: %v", left)
	}
}

func TestListenerTakesConnectionsOverTCP(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "127.0.0.1:-1", ":0"} {
		s := run(t, WithListener(addr))
		if url := s.ClientURL(); !strings.HasPrefix(url, "nats://127.0.0.1:") {
			t.Fatalf("ClientURL of listener %s = %q", addr, url)
		}
		nc, err := nats.Connect(s.ClientURL())
		if err != nil {
			t.Fatalf("listener %s: %v", addr, err)
		}
		mustAsk(t, nc, "$JS.API.INFO", "")
		nc.Close()
	}
	if url := run(t).ClientURL(); url != "" {
		t.Errorf("ClientURL without a listener = %q, want none", url)
	}
}

func TestMonitoringPagesSayWhatTheServerDoes(t *testing.T) {
	t.Parallel()
	s := run(t, WithMonitor(":0"), WithToken("secret"))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.MonitorURL()+"/jsz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(body), `"max_storage"`) {
		t.Errorf("%s, %v", body, err)
	}
	if url := run(t).MonitorURL(); url != "" {
		t.Errorf("a server without the option has %s", url)
	}
}

func TestCredentialsAreRequiredOverTCPAndSuppliedInProcess(t *testing.T) {
	for _, c := range []struct {
		required     Option
		right, wrong nats.Option
	}{
		{WithUser("ann", "pw"), nats.UserInfo("ann", "pw"), nats.Token("pw")},
		{WithToken("tok"), nats.Token("tok"), nats.UserInfo("tok", "tok")},
	} {
		s := run(t, WithListener("127.0.0.1:0"), c.required)
		for _, with := range []nats.Option{nil, c.wrong} {
			if _, err := nats.Connect(s.ClientURL(), with); !errors.Is(err, nats.ErrAuthorization) {
				t.Errorf("connect without credentials, or with wrong ones: %v, want %v", err, nats.ErrAuthorization)
			}
		}
		nc, err := nats.Connect(s.ClientURL(), c.right)
		if err != nil {
			t.Fatalf("connect with the credentials: %v", err)
		}
		nc.Close()
		mustAsk(t, connect(t, s), "$JS.API.INFO", "")
	}
}

func TestStoreOfAnotherServerIsRefused(t *testing.T) {
	dir := t.TempDir()
	first := run(t, WithStore(dir))
	_, err := Start(t.Context(), WithStore(dir))
	if !errors.Is(err, ErrStoreInUse) {
		t.Fatalf("second Start = %v, want %v", err, ErrStoreInUse)
	}
	for _, want := range []string{dir, "of this process", "use another directory"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not contain %q", err, want)
		}
	}
	first.Close()
	run(t, WithStore(dir))
}

func TestStoreIsUnlockedWhenItsProcessIsKilled(t *testing.T) {
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), heldStore+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if said, _ := bufio.NewReader(out).ReadString('\n'); said != "holding\n" {
		t.Fatalf("child printed %q", said)
	}
	_, err = Start(t.Context(), WithStore(dir))
	if !errors.Is(err, ErrStoreInUse) || !strings.Contains(err.Error(), "(process ") {
		t.Errorf("Start while the child runs = %v, want %v with its process ID", err, ErrStoreInUse)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // the kill is its error
	run(t, WithStore(dir))
}

func TestStartErrorsNameTheCauseAndTheRemedy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	busy := strings.TrimPrefix(run(t, WithListener("127.0.0.1:0")).ClientURL(), "nats://")
	for _, c := range []struct {
		name string
		opts []Option
		want []string
	}{
		{"file in the way", []Option{WithStore(filepath.Join(file, "x"))}, []string{file, "use another directory"}},
		{"unwritable", []Option{WithStore("/proc/turnlog")}, []string{"/proc/turnlog", "use a directory"}},
		{"port in use", []Option{WithListener(busy)}, []string{busy, "address already in use", "choose another port"}},
		{"port of monitoring in use", []Option{WithMonitor(busy)}, []string{busy, "address already in use", "choose another port"}},
		{"no port of monitoring", []Option{WithMonitor("8222")}, []string{"monitoring", `"8222"`, "like 127.0.0.1:4222"}},
		{"port of routes in use", []Option{WithListener("127.0.0.1:0"), WithSettings("cluster { name: c, listen: '" + busy + "', routes: ['nats://" + busy + "'] }")}, []string{"router port", "address already in use"}},
		{"foreign address", []Option{WithListener("192.0.2.1:0")}, []string{"192.0.2.1:0", "no such address"}},
		{"unknown host", []Option{WithListener("no-such-host.invalid:0")}, []string{"no-such-host.invalid:0", "like 127.0.0.1:4222"}},
		{"no port", []Option{WithListener("4222")}, []string{`"4222"`, "like 127.0.0.1:4222"}},
		{"port too high", []Option{WithListener("127.0.0.1:70000")}, []string{`"70000"`, "65535"}},
		{"empty store", []Option{WithStore("")}, []string{"store directory is empty"}},
		{"two stores", []Option{WithStore("/a"), WithStore("/b")}, []string{"/a", "/b", "give one"}},
		{"two listeners", []Option{WithListener(":1"), WithListener(":2")}, []string{"0.0.0.0:1", "0.0.0.0:2"}},
		{"sync in memory", []Option{WithSync()}, []string{"needs a store directory"}},
		{"settings without an end", []Option{WithSettings("authorization {")}, []string{"nats-server configuration: "}},
		{"unknown setting", []Option{WithSettings("no_such_setting: 1")}, []string{"nats-server configuration: ", "no_such_setting"}},
		{"wrong setting", []Option{WithSettings("port: many")}, []string{"nats-server configuration: "}},
		{"user twice", []Option{WithSettings("debug: false"), WithUser("ann", "p")}, []string{"configure the user there"}},
		{"no logger", []Option{WithLogger(nil)}, []string{"logger is nil"}},
		{"no password", []Option{WithUser("ann", "")}, []string{"name and a password"}},
		{"no token", []Option{WithToken("")}, []string{"token is empty"}},
		{"user and token", []Option{WithUser("ann", "p"), WithToken("t")}, []string{"cannot be combined"}},
	} {
		s, err := Start(t.Context(), c.opts...)
		if err == nil {
			s.Close()
			t.Errorf("%s: started", c.name)
			continue
		}
		for _, want := range append(c.want, "start embedded server: ") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q does not contain %q", c.name, err, want)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error has more than one line: %q", c.name, err)
		}
	}
}

func TestStartUnderAnEndedContextFails(t *testing.T) {
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := Start(ctx); !errors.Is(err, gone) {
		t.Errorf("Start = %v, want the context's cause", err)
	}
}

func TestOptionsReachTheServer(t *testing.T) {
	s := run(t, WithStore(t.TempDir()), WithSync(),
		WithSettings("max_payload: 2MB, jetstream { max_file_store: 1GB, max_memory_store: 1MB }"))
	js := s.nats.JetStreamConfig()
	if !js.SyncAlways || js.MaxStore != 1<<30 || js.MaxMemory != 1<<20 {
		t.Errorf("sync %v, store %d, memory %d; want true, %d, %d", js.SyncAlways, js.MaxStore, js.MaxMemory, 1<<30, 1<<20)
	}
	if got := connect(t, s).MaxPayload(); got != 2<<20 {
		t.Errorf("MaxPayload = %d, want %d", got, 2<<20)
	}
	// Omitting the limits must not disable syncing.
	if s := run(t, WithStore(t.TempDir()), WithSync()); !s.nats.JetStreamConfig().SyncAlways {
		t.Error("WithSync alone does not sync")
	}
}

func TestUsersOfSettingsHaveToConnectByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a refused connection in the process takes ten seconds
		s := run(t, WithSettings(`authorization { users: [ { user: ann, password: p, permissions: { publish: "a.>" } } ] }`))
		if _, err := s.Connect(); err == nil {
			t.Error("connected without a name")
		}
		nc, err := s.Connect(nats.UserInfo("ann", "p"))
		if err != nil {
			t.Fatal(err)
		}
		nc.Close()
		s.Close()
	})
}

func TestCloseEndsConnectionsAndGoroutines(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s, err := Start(t.Context(), WithStore(t.TempDir()), WithListener("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	nc := connect(t, s)
	createStream(t, nc)
	mustAsk(t, nc, "s", "hello")
	s.Close()
	s.Close()
	if !nc.IsClosed() {
		t.Error("connection is still open after Close")
	}
	if _, err := s.Connect(); err == nil {
		t.Error("Connect after Close succeeded")
	}
	goleak.VerifyNone(t, before)
}

func BenchmarkStart(b *testing.B) {
	for _, mode := range []string{"memory", "disk", "tcp"} {
		b.Run(mode, func(b *testing.B) {
			for b.Loop() {
				var opts []Option
				switch mode {
				case "disk":
					opts = append(opts, WithStore(b.TempDir()))
				case "tcp":
					opts = append(opts, WithListener("127.0.0.1:0"))
				}
				s, err := Start(b.Context(), opts...)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := s.Connect(); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				s.Close()
				b.StartTimer()
			}
		})
	}
}
