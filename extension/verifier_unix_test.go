//go:build unix

package extension_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/turnlog/turnlog/extension"
)

func TestCancelledCommandLeavesNoProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	running, stop := context.WithCancelCause(t.Context())
	opened := make(chan *os.File, 1)
	go func() {
		f, err := os.Open(pipe) // once the child writes
		if err != nil {
			t.Error(err)
		}
		opened <- f
		stop(enough)
	}()
	pass, _, err := extension.Command("sh", "-c", "sleep 1000 >pipe & wait").Verify(running, dir)
	if pass || !errors.Is(err, enough) {
		t.Errorf("Verify = %t, %v", pass, err)
	}
	f := <-opened
	defer func() { _ = f.Close() }()
	// The pipe ends when no process has it open.
	if err := f.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a child process survived: %v", err)
	}
}
