package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/natscli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
)

// deployment is what a command line describes.
func deployment(t *testing.T, args ...string) *Deployment {
	t.Helper()
	root := &cobra.Command{Use: "prog"}
	d := NewDeployment(root, noEnv)
	d.Provisions(root)
	root.AddCommand(&cobra.Command{Use: "go", RunE: func(*cobra.Command, []string) error { return nil }})
	if code, _, stderr := execute(t.Context(), root, append([]string{"go"}, args...)...); code != 0 {
		t.Fatalf("%v: %s", args, stderr)
	}
	return d
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

func TestOpenCreatesMissingStreams(t *testing.T) {
	t.Parallel()
	url := natstest.Serve(t).ClientURL()
	_, err := open(t, false, nil, "--server", url)
	if !errors.Is(err, jetstream.ErrNotProvisioned) || !strings.Contains(err.Error(), `"turnlog provision" creates what is missing`) {
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
	env := map[string]string{"NATS_URL": natstest.Serve(t).ClientURL(), "TURNLOG_NAMESPACE": "team_a"}
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
	url := natstest.Serve(t).ClientURL()
	cell, err := open(t, true, nil, "--server", url)
	if err != nil {
		t.Fatal(err)
	}
	// One stream is missing, and the others have a different number of replicas than requested.
	if _, err := cell.Conn.RequestWithContext(t.Context(), "$JS.API.STREAM.DELETE.TURNLOG_RUN", nil); err != nil {
		t.Fatal(err)
	}
	_, err = open(t, true, nil, "--server", url, "--replicas", "3")
	if err == nil || !strings.Contains(oneLine(err.Error()), "TURNLOG_INBOX: num_replicas is 1, must be 3") ||
		!strings.HasSuffix(err.Error(), "nothing was created: request the existing settings, change them, or use another --namespace") {
		t.Errorf("Open = %v, want what differs", err)
	}
	if _, err := open(t, false, nil, "--server", url); !errors.Is(err, jetstream.ErrNotProvisioned) ||
		!strings.Contains(err.Error(), "missing TURNLOG_RUN > drivers") && !strings.Contains(err.Error(), "missing TURNLOG_RUN:") ||
		!strings.Contains(err.Error(), "or explains why it cannot") {
		t.Errorf("Open of a part = %v", err)
	}
}

func TestAnUnreachableServerIsReportedWithItsAddress(t *testing.T) {
	t.Parallel()
	_, err := open(t, false, nil, "--server", "127.0.0.1:1")
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("Open = %v, want the address that was tried", err)
	}
}

func TestOpenWaitsForAStartingServer(t *testing.T) {
	t.Parallel()
	first := natstest.Serve(t)
	url := first.ClientURL()
	first.Close()
	log, logged := observer.New(zap.InfoLevel)
	opened := make(chan error, 1)
	d := deployment(t, "--server", url, "--connect-timeout", "1m")
	go func() {
		cell, err := d.Open(t.Context(), "test", zap.New(log))
		if err == nil {
			cell.Close()
		}
		opened <- err
	}()
	for tick := time.NewTicker(time.Millisecond); logged.FilterMessage("no server answers yet").Len() == 0; {
		select {
		case <-tick.C:
		case err := <-opened:
			t.Fatalf("Open = %v before there is a server", err)
		}
	}
	s, err := embedded.Start(t.Context(), embedded.WithListener(strings.TrimPrefix(url, "nats://")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if err := <-opened; err != nil {
		t.Errorf("Open = %v", err)
	}
	if n := logged.FilterMessage("no server answers yet").Len(); n != 1 {
		t.Errorf("%d lines say that no server answers", n)
	}
}

func TestOpenReportsTheAddressOfAnUnreachableServer(t *testing.T) {
	t.Parallel()
	_, err := open(t, true, nil, "--server", "127.0.0.1:1", "--connect-timeout", "300ms")
	if !errors.Is(err, natscli.ErrNoServer) || !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.HasSuffix(err.Error(), "(waited 300ms)") {
		t.Errorf("Open = %v", err)
	}
}

func TestInvalidSettingsAreUsageErrors(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--namespace", "a.b"}, {"--server", "http://x"}, {"--server", ","}, {"--server", "127.0.0.1:1", "--password", "x"},
	} {
		_, err := open(t, true, nil, args...)
		if e, ok := errors.AsType[*ExitError](err); !ok || e.Code != CodeUsage {
			t.Errorf("Open with %q = %v, want a usage error", args, err)
		}
	}
}

func TestAServerWithoutJetStreamIsReported(t *testing.T) {
	t.Parallel()
	url := clitest.NoJetStream(t)
	_, err := open(t, true, nil, "--server", url)
	want := "JetStream is not enabled at " + url + ": start that server with JetStream (nats-server -js), or connect to one that has it"
	if err == nil || err.Error() != want {
		t.Errorf("Open = %v, want %s", err, want)
	}
}

func TestWorkEndsWithASignalOrItsConnection(t *testing.T) {
	t.Parallel()
	srv := natstest.Serve(t)
	for name, c := range map[string]struct {
		end  func(*Cell, context.CancelCauseFunc)
		want string
	}{
		"signal":     {func(_ *Cell, cancel context.CancelCauseFunc) { cancel(&Interrupted{os.Interrupt}) }, "<nil>"},
		"connection": {func(cell *Cell, _ context.CancelCauseFunc) { cell.Close() }, "connection closed permanently"},
		"other":      {func(_ *Cell, cancel context.CancelCauseFunc) { cancel(errors.New("gone")) }, "gone"},
	} {
		cell, err := open(t, true, nil, "--server", srv.ClientURL())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		worked := false
		err = cell.Work(ctx, func(serving context.Context) error {
			<-serving.Done()
			if !worked {
				t.Errorf("%s: the endpoints ended before the work", name)
			}
			return nil
		}, func(ctx context.Context) error {
			ready := cell.Ready(func() error { return errors.New("starting") })
			if got := ready().Error(); got != "starting" {
				t.Errorf("%s: not ready: %s", name, got)
			}
			c.end(cell, cancel)
			<-ctx.Done()
			if got := ready().Error(); name == "connection" && got != "not connected to NATS: CLOSED" {
				t.Errorf("%s: not ready: %s", name, got)
			}
			worked = true
			return nil
		})
		if !strings.HasPrefix(fmt.Sprint(err), c.want) {
			t.Errorf("%s: Work = %v, want %s", name, err, c.want)
		}
		cancel(nil)
		cell.Close()
	}
}
