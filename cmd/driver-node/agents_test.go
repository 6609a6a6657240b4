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
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream/agents"
	"github.com/turnlog/turnlog/session"
)

// begun is the configuration of a new session of an agent.
func begun(t *testing.T, c *client.Client, id content.SessionID, agent string) (events.Config, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := c.Start(ctx, client.Options{ID: id, Config: events.Config{Agent: &events.AgentRef{Name: agent}}})
	if err != nil {
		return events.Config{}, err
	}
	defer func() { _ = s.Close(t.Context()) }()
	state, _, err := c.Read(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return state.Config, nil
}

func TestTheFolderOfANodePrecedesPublishedAgents(t *testing.T) {
	t.Parallel()
	s := natstest.Serve(t)
	cell, _ := clitest.Open(t, s.ClientURL())
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "near.yaml"), []byte("model: demo\nsystem: near\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "--server", s.ClientURL(), "--agents", dir)
	p.err.AwaitMatch(t, "node (started)")
	for name, data := range map[string]string{"near": `{"model":"demo","name":"near","system":"far"}`, "far": `{"model":"demo","name":"far"}`} {
		if err := agents.Of(cell).Publish(t.Context(), name, "v1", []byte(data)); err != nil {
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
	if refused, ok := errors.AsType[*session.InvalidStateError](err); !ok || refused.Reason != "unknown_agent" {
		t.Errorf("none began: %v", err)
	}
	p.stop(&cli.Interrupted{Signal: os.Interrupt})
	if code := p.end(t); code != cli.CodeOK {
		t.Errorf("exit code %d:\n%s", code, p.err)
	}
}

// The agent's file names the script, and other nodes do not have it.
func TestAnAgentsScriptIsPartOfItsSessions(t *testing.T) {
	t.Parallel()
	s := natstest.Serve(t)
	dir, script := t.TempDir(), "replies: [{text: by the script}]\n"
	for name, text := range map[string]string{"said.yaml": script, "near.yaml": "model: scripted:said.yaml\n", "gone.yaml": "model: scripted:none.yaml\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, "--server", s.ClientURL(), "--agents", dir)
	p.err.AwaitMatch(t, "node (started)")
	c, err := client.Open(clitest.Dial(t, s.ClientURL()), "")
	if err != nil {
		t.Fatal(err)
	}
	if cfg, err := begun(t, c, "s-near", "near"); err != nil || string(cfg.ModelData) != script {
		t.Errorf("near began with the script %q, %v", cfg.ModelData, err)
	}
	_, err = begun(t, c, "s-gone", "gone")
	if refused, ok := errors.AsType[*session.InvalidStateError](err); !ok || refused.Reason != "bad_agent" {
		t.Errorf("gone began: %v", err)
	}
	p.stop(&cli.Interrupted{Signal: os.Interrupt})
	if code := p.end(t); code != cli.CodeOK {
		t.Errorf("exit code %d:\n%s", code, p.err)
	}
}

func TestANodeLogsProblemsWithItsFolder(t *testing.T) {
	t.Parallel()
	s := natstest.Serve(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "odd.yaml")
	if err := os.WriteFile(file, []byte("on_busy: x\nlimits: {rounds: 0}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "--server", s.ClientURL(), "--agents", dir, "--log-format", "json")
	p.err.AwaitMatch(t, "node (started)")
	log := p.err.String()
	for _, want := range []string{`"agent file cannot be used"`, `"line":1,"column":10`, `"line":2,"column":18`} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in the log:\n%s", want, log)
		}
	}
	c, err := client.Open(clitest.Dial(t, s.ClientURL()), "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = begun(t, c, "s-odd", "odd")
	refused, ok := errors.AsType[*session.InvalidStateError](err)
	if !ok || refused.Reason != "bad_agent" || !strings.Contains(err.Error(), file+":1:10: on_busy: ") || !strings.Contains(err.Error(), file+":2:18: limits.rounds: ") {
		t.Errorf("odd began: %v", err)
	}
	p.stop(&cli.Interrupted{Signal: os.Interrupt})
	if code := p.end(t); code != cli.CodeOK {
		t.Errorf("exit code %d:\n%s", code, p.err)
	}
}

func TestHooksOfPublishedAgentsNeedTheFlag(t *testing.T) {
	t.Parallel()
	s := natstest.Serve(t)
	cell, _ := clitest.Open(t, s.ClientURL())
	dir := t.TempDir()
	hooked := "model: demo\nhooks: [{name: first, points: [session_start], command: 'cat > told'}]\n"
	if err := os.WriteFile(filepath.Join(dir, "own.yaml"), []byte(hooked), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := client.Open(clitest.Dial(t, s.ClientURL()), "")
	if err != nil {
		t.Fatal(err)
	}
	serve := func(args ...string) (stop func()) {
		p := start(t, append([]string{"--server", s.ClientURL(), "--agents", dir}, args...)...)
		p.err.AwaitMatch(t, "node (started)")
		return func() {
			p.stop(&cli.Interrupted{Signal: os.Interrupt})
			if code := p.end(t); code != cli.CodeOK {
				t.Errorf("exit code %d:\n%s", code, p.err)
			}
		}
	}
	stop := serve()
	far := `{"model":"demo","name":"far","hooks":[{"points":["session_start"],"command":"cat > told-far"}]}`
	if err := agents.Of(cell).Publish(t.Context(), "far", "v1", []byte(far)); err != nil {
		t.Fatal(err)
	}
	cfg, err := begun(t, c, "s-own", "own")
	if told, readErr := os.ReadFile(filepath.Join(dir, "told")); err != nil || readErr != nil || !cfg.Agent.Local || !strings.Contains(string(told), "s-own") {
		t.Errorf("own began with %+v, %v; its hook was told %s, %v", cfg.Agent, err, told, readErr)
	}
	_, err = begun(t, c, "s-far", "far")
	if refused, ok := errors.AsType[*session.InvalidStateError](err); !ok || refused.Reason != "bad_agent" || !strings.Contains(err.Error(), "--agent-hooks") {
		t.Errorf("far began: %v, want a refusal that names the flag", err)
	}
	stop()
	stop = serve("--agent-hooks")
	cfg, err = begun(t, c, "s-willing", "far")
	if _, statErr := os.Stat(filepath.Join(dir, "told-far")); err != nil || statErr != nil || cfg.Agent.Local {
		t.Errorf("far began with %+v, %v; its hook: %v", cfg.Agent, err, statErr)
	}
	stop()
}
