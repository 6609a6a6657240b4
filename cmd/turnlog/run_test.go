package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/cli"
)

func TestRunTakesAPromptOfFiveMegabytes(t *testing.T) {
	t.Parallel()
	p := prepare(t, strings.NewReader(strings.Repeat("word ", 1<<20)), nil)
	p.start(t, "run", "--model", scripted(t, oneReply))
	if code := p.end(t); code != cli.CodeOK || p.out.String() != "Hello.\n" {
		t.Errorf("code %d, out %q, err %q", code, p.out, p.err)
	}
}

func TestOnlyFlagsAndTheEnvironmentRedirectRun(t *testing.T) {
	t.Parallel()
	model := scripted(t, oneReply)
	p := prepare(t, nil, env{"NATS_URL": "nats://127.0.0.1:1"}).start(t, "run", "--model", model, "hi")
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "no server answers") {
		t.Errorf("NATS_URL: code %d, err %s", code, p.err)
	}
	config := t.TempDir()
	if err := os.MkdirAll(filepath.Join(config, "nats", "context"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"context.txt": "away", "context/away.json": `{"url":"nats://127.0.0.1:1"}`} {
		if err := os.WriteFile(filepath.Join(config, "nats", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p = prepare(t, nil, env{"XDG_CONFIG_HOME": config}).start(t, "run", "--model", model, "hi")
	if code := p.end(t); code != cli.CodeOK {
		t.Errorf("selected context: code %d, err %s", code, p.err)
	}
	p = prepare(t, nil, env{"XDG_CONFIG_HOME": config, "NATS_CONTEXT": "away"}).start(t, "run", "--model", model, "hi")
	if code := p.end(t); code != cli.CodeFailed {
		t.Errorf("NATS_CONTEXT: code %d, err %s", code, p.err)
	}
}
