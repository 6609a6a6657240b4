package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/turnlog/turnlog/internal/cli"
)

func TestTheSecondSignalEndsTheProcess(t *testing.T) {
	t.Parallel()
	signals, exited := make(chan os.Signal), make(chan int, 1)
	a := &app{signals: signals, exit: func(code int) { exited <- code }}
	ended := make(chan error, 1)
	over := make(chan struct{})
	go func() {
		ended <- a.interruptible(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			<-over // what does not hear
			return context.Cause(ctx)
		})
	}()
	signals <- os.Interrupt
	signals <- syscall.SIGTERM
	if code := <-exited; code != codeSignal+int(syscall.SIGTERM) {
		t.Errorf("exit code %d", code)
	}
	close(over)
	if err := <-ended; !isInterrupt(err) {
		t.Errorf("ended with %v, want %T", err, &cli.Interrupted{})
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestACommandWhoseOutputIsLostHasFailed(t *testing.T) {
	t.Parallel()
	p := prepare(t, strings.NewReader(""), nil)
	p.app.term.out = full{}
	p.start(t, "run", "--model", scripted(t, echo), "hi")
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "turnlog: no space left") {
		t.Errorf("code %d, err %q", code, p.err)
	}
}
