//go:build unix

package security

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/internal/natscli"
	"github.com/turnlog/turnlog/internal/textfile"
	"github.com/turnlog/turnlog/model/record"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/tool/exec"
)

// TestNamedFilesCannotStopAProgram gives each reader of user-named files something that could
// block it forever or fill its memory: a pipe without a writer, an endless device, a
// directory, and a file of a terabyte without data.
func TestNamedFilesCannotStopAProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe, huge := filepath.Join(dir, "pipe.yaml"), filepath.Join(dir, "huge.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(huge)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(1 << 40); err != nil {
		t.Fatal(err)
	}
	_ = f.Close() // nothing was written
	connect := func(flag string) func(file string) error {
		return func(file string) error {
			f := natscli.Flags{Server: "127.0.0.1:1"}
			*map[string]*string{"--creds": &f.Creds, "--nkey": &f.NKey, "--tlsca": &f.TLSCA}[flag] = file
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := f.Connect(ctx, "test", zap.NewNop())
			return err
		}
	}
	for name, read := range map[string]func(file string) error{
		"an agent":     func(file string) error { _, err := agentfile.Load(file); return err },
		"its prompt":   func(file string) error { return includes(t, file) },
		"a script":     func(file string) error { _, err := scripted.Load(file); return err },
		"a cassette":   func(file string) error { _, err := record.Open(file, nil, record.Config{}); return err },
		"a manifest":   func(file string) error { _, err := exec.Load(dir, file, exec.Options{}); return err },
		"credentials":  connect("--creds"),
		"a key":        connect("--nkey"),
		"an authority": connect("--tlsca"),
	} {
		for _, file := range []string{pipe, "/dev/zero", dir, huge} {
			err := read(file)
			if err == nil || name == "a manifest" && file == dir { // it loads the folder, which holds the pipe
				if err == nil {
					t.Errorf("%s from %s was accepted", name, file)
				}
				continue
			}
			if text := err.Error(); !strings.Contains(text, "not a regular file") && !strings.Contains(text, "is a directory") && !strings.Contains(text, "more than") {
				t.Errorf("%s from %s: %v", name, file, err)
			}
		}
	}
	// Streamed files need no limit, but must not block either.
	for _, file := range []string{pipe, "/dev/zero", dir} {
		if f, err := textfile.Open(file); err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(f, 1))
			t.Errorf("%s was opened", file)
		}
	}
}

// includes loads an agent whose prompt is in a file of that kind in the same folder.
func includes(t *testing.T, file string) error {
	t.Helper()
	dir := t.TempDir()
	named := filepath.Join(dir, "prompt.md")
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	switch {
	case info.IsDir():
		err = os.Mkdir(named, 0o700)
	case info.Mode().IsRegular():
		err = os.Link(file, named)
	default: // not every user can create a device
		err = syscall.Mkfifo(named, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	agent := filepath.Join(dir, "a.yaml")
	if err := os.WriteFile(agent, []byte("model: demo\nsystem_file: prompt.md\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = agentfile.Load(agent)
	return err
}
