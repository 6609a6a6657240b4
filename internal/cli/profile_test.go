package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// durably runs a command with the flags of a profile.
func durably(t *testing.T, do func(*cobra.Command, *Durability) error, args ...string) (code int, stderr string) {
	t.Helper()
	root := &cobra.Command{Use: "prog"}
	cmd := &cobra.Command{Use: "go"}
	d := NewDurability(cmd, "what to require")
	cmd.Flags().Int("replicas", 1, "")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return do(cmd, d) }
	root.AddCommand(cmd)
	code, _, stderr = execute(t.Context(), root, append([]string{"go"}, args...)...)
	return code, stderr
}

func TestReplicasAreAtLeastThoseOfTheProfile(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]int{"": 1, "--replicas 5": 5, "--profile dev": 1, "--profile standard": 3, "--profile standard --replicas 5": 5} {
		code, stderr := durably(t, func(cmd *cobra.Command, d *Durability) error {
			replicas, err := cmd.Flags().GetInt("replicas")
			if err != nil {
				return err
			}
			if got, err := d.Replicas(cmd, replicas); err != nil || got != want {
				t.Errorf("%q: %d replicas, %v, want %d", args, got, err, want)
			}
			return nil
		}, strings.Fields(args)...)
		if code != CodeOK {
			t.Errorf("%q: %s", args, stderr)
		}
	}
	for args, want := range map[string]string{
		"--replicas 0":                    "--replicas 0: use 1 or more",
		"--profile audit --replicas 1":    "--replicas 1 is less than the 3 of --profile audit",
		"--profile dev --monitor 8222":    "--monitor: monitoring port: ",
		"--profile dev --assume-sync 2m":  "always",
		"--profile eternal --replicas 99": "standard",
	} {
		code, stderr := durably(t, func(cmd *cobra.Command, d *Durability) error {
			replicas, err := cmd.Flags().GetInt("replicas")
			if err != nil {
				return err
			}
			_, err = d.Replicas(cmd, replicas)
			return err
		}, strings.Fields(args)...)
		if code != CodeUsage || !strings.Contains(stderr, want) {
			t.Errorf("%q: code %d, %q, want %q", args, code, stderr, want)
		}
	}
}

// A node must not start in a deployment that is weaker than its operator requires.
func TestADeploymentMustBeAsDurableAsItsProfile(t *testing.T) {
	t.Parallel()
	s := natstest.Serve(t)
	bare, conn := clitest.Open(t, s.ClientURL())
	cell := &Cell{Cell: bare, Conn: conn}
	require := func(args ...string) (int, string) {
		return durably(t, func(cmd *cobra.Command, d *Durability) error {
			return d.Require(cmd.Context(), cell, zap.NewNop(), admin.RoleDriver)
		}, args...)
	}
	if code, stderr := require("--profile", "dev"); code != CodeFailed || !strings.Contains(stderr, "durability of ") {
		t.Errorf("without streams: code %d, %s", code, stderr)
	}
	if err := admin.Of(bare).Provision(t.Context(), admin.Config{Memory: true}); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"":                                     "",
		"--profile standard":                   "replicas is 1, must be 3: ",
		"--profile audit --assume-sync always": "storage is memory, must be file: ",
		"--profile audit":                      "no client can read the sync_interval of " + s.Name() + ": name the monitoring ports with --monitor",
		"--profile audit --monitor http://127.0.0.1:1":                             "no client can read the sync_interval of " + s.Name() + " (",
		"--profile audit --assume-sync always --monitor " + monitorOf(t, s.Name()): "sync_interval is 2m0s, must be always: ",
	} {
		code, stderr := require(strings.Fields(args)...)
		if (code == CodeOK) != (want == "") || !strings.Contains(stderr, want) {
			t.Errorf("%q: code %d, %s, want %q", args, code, stderr, want)
		}
	}
}

// monitorOf is the monitoring port of a server that syncs every two minutes.
func monitorOf(t *testing.T, name string) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"server_name":"` + name + `","jetstream":{"config":{"sync_interval":120000000000}}}`))
	}))
	t.Cleanup(s.Close)
	return s.URL
}
