package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/jetstream"
)

// server starts a NATS server with a listener.
func server(t *testing.T) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(t.Context(), embedded.WithListener("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// open runs a command with a deployment's flags, which opens it.
func open(t *testing.T, provisions bool, env map[string]string, args ...string) (*Cell, error) {
	t.Helper()
	var cell *Cell
	var err error
	root := &cobra.Command{Use: "prog"}
	getenv := func(key string) string { return env[key] }
	d := NewDeployment(root, getenv)
	if provisions {
		d.Provisions(root)
	}
	root.AddCommand(&cobra.Command{Use: "go", RunE: func(cmd *cobra.Command, _ []string) error {
		cell, err = d.Open(cmd.Context(), "test", zap.NewNop())
		return nil
	}})
	if code, _, stderr := execute(t.Context(), root, append([]string{"go"}, args...)...); code != 0 {
		t.Fatalf("%v: %s", args, stderr)
	}
	if cell != nil {
		t.Cleanup(cell.Close)
	}
	return cell, err
}

func TestOpenProvisionsWhatIsMissing(t *testing.T) {
	t.Parallel()
	url := server(t).ClientURL()
	_, err := open(t, false, nil, "--server", url)
	if !errors.Is(err, jetstream.ErrNotProvisioned) || !strings.Contains(err.Error(), `"turnlog provision" does that`) {
		t.Errorf("Open = %v, want that it is not provisioned, and what to do", err)
	}
	if _, err := open(t, true, nil, "--server", url, "--provision=false"); !errors.Is(err, jetstream.ErrNotProvisioned) {
		t.Errorf("Open without provisioning = %v", err)
	}
	cell, err := open(t, true, nil, "--server", url)
	if err != nil || cell.Namespace() != jetstream.DefaultNamespace {
		t.Fatalf("Open = %v, %v", cell, err)
	}
	if _, err := open(t, false, nil, "--server", url); err != nil {
		t.Errorf("Open of what was provisioned = %v", err)
	}
}

func TestNamespaceComesFromFlagThenEnvironment(t *testing.T) {
	t.Parallel()
	env := map[string]string{"NATS_URL": server(t).ClientURL(), "TURNLOG_NAMESPACE": "team_a"}
	if cell, err := open(t, true, env); err != nil || cell.Namespace() != "team_a" {
		t.Errorf("Open = %v, %v, want team_a", cell, err)
	}
	if cell, err := open(t, true, env, "--namespace", "team_b"); err != nil || cell.Namespace() != "team_b" {
		t.Errorf("Open = %v, %v, want team_b", cell, err)
	}
	if _, err := open(t, true, env, "--namespace", "a.b"); err == nil || !strings.Contains(err.Error(), `namespace "a.b"`) {
		t.Errorf("Open = %v, want that the name cannot be used", err)
	}
}

func TestStreamsWithOtherSettingsAreNamed(t *testing.T) {
	t.Parallel()
	url := server(t).ClientURL()
	cell, err := open(t, true, nil, "--server", url)
	if err != nil {
		t.Fatal(err)
	}
	// One stream is gone, the others are of another replica count than asked for.
	if _, err := cell.Conn.RequestWithContext(t.Context(), "$JS.API.STREAM.DELETE.TURNLOG_RUN", nil); err != nil {
		t.Fatal(err)
	}
	_, err = open(t, true, nil, "--server", url, "--replicas", "3")
	if err == nil || strings.Contains(oneLine(err.Error()), "\n") {
		t.Errorf("Open = %v, want an error", err)
	}
}

func TestNoServerIsSaidWithItsAddress(t *testing.T) {
	t.Parallel()
	_, err := open(t, false, nil, "--server", "127.0.0.1:1")
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("Open = %v, want the address that was tried", err)
	}
}

// plainServer speaks just enough of the protocol for a client to connect and to
// learn that nobody answers: a NATS server without JetStream.
func plainServer(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answer(conn)
		}
	}()
	return "nats://" + l.Addr().String()
}

func answer(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, `INFO {"server_id":"x","version":"2.15.0","proto":1,"headers":true,"max_payload":1048576}`+"\r\n")
	in := bufio.NewScanner(conn)
	sid := ""
	for in.Scan() {
		words := strings.Fields(in.Text())
		switch {
		case len(words) == 0:
		case words[0] == "PING":
			_, _ = io.WriteString(conn, "PONG\r\n")
		case words[0] == "SUB":
			sid = words[len(words)-1]
		case words[0] == "PUB" && len(words) == 4:
			const header = "NATS/1.0 503\r\n\r\n"
			_, _ = fmt.Fprintf(conn, "HMSG %s %s %d %d\r\n%s\r\n", words[2], sid, len(header), len(header), header)
		}
	}
}

func TestServerWithoutJetStreamIsSaid(t *testing.T) {
	t.Parallel()
	url := plainServer(t)
	_, err := open(t, true, nil, "--server", url)
	want := "JetStream is not enabled at " + url + ": start that server with JetStream (nats-server -js), or connect to one that has it"
	if err == nil || err.Error() != want {
		t.Errorf("Open = %v, want %s", err, want)
	}
}

func TestContextEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	cell, err := open(t, true, nil, "--server", server(t).ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := cell.Lasting(t.Context())
	defer stop()
	if ctx.Err() != nil {
		t.Fatal("the context is over already")
	}
	cell.Close()
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the context goes on")
	}
	if cause := context.Cause(ctx).Error(); !strings.HasPrefix(cause, "connection closed for good") {
		t.Errorf("cause = %s", cause)
	}
}
