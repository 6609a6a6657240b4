package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/clitest"
)

// begun is the configuration of a new session of an agent.
func begun(t *testing.T, c *client.Client, id content.SessionID, agent string) (events.Config, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s, err := c.Start(ctx, client.Options{ID: id, Config: events.Config{Agent: &events.AgentRef{Name: agent}}})
	if err != nil {
		return events.Config{}, err
	}
	defer s.Close()
	state, _, err := c.Read(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return state.Config, nil
}

func TestTheFolderOfANodeCountsBeforeWhatIsPublished(t *testing.T) {
	t.Parallel()
	s := clitest.Serve(t)
	cell, _ := clitest.Open(t, s)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "near.yaml"), []byte("model: demo\nsystem: near\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "--server", s.ClientURL(), "--agents", dir)
	p.err.AwaitMatch(t, "node (started)")
	for name, data := range map[string]string{"near": `{"model":"demo","name":"near","system":"far"}`, "far": `{"model":"demo","name":"far"}`} {
		if err := cell.Agents().Publish(t.Context(), name, "v1", []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.Open(clitest.Dial(t, s.ClientURL()), "")
	if err != nil {
		t.Fatal(err)
	}
	if cfg, err := begun(t, c, "s-near", "near"); err != nil || !strings.Contains(string(cfg.Agent.Data), `"system":"near"`) {
		t.Errorf("near began with %+v, %v", cfg.Agent, err)
	}
	if cfg, err := begun(t, c, "s-far", "far"); err != nil || cfg.Agent.Version == "" || cfg.Model != "demo" {
		t.Errorf("far began with %+v, %v", cfg, err)
	}
	_, err = begun(t, c, "s-none", "none")
	if refused, ok := errors.AsType[*client.RefusedError](err); !ok || refused.Reason != "unknown_agent" {
		t.Errorf("none began: %v", err)
	}
	p.stop(&cli.Interrupted{Signal: os.Interrupt})
	if code := p.end(t); code != cli.CodeOK {
		t.Errorf("exit code %d:\n%s", code, p.err)
	}
}
