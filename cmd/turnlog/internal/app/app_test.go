package app

import (
	"context"
	"os"
	"syscall"
	"testing"

	"github.com/turnlog/turnlog/internal/cli"
)

func TestTheSecondSignalEndsTheProcess(t *testing.T) {
	t.Parallel()
	signals, exited := make(chan os.Signal), make(chan int, 1)
	a := &App{Signals: signals, Exit: func(code int) { exited <- code }}
	ended := make(chan error, 1)
	over := make(chan struct{})
	go func() {
		ended <- a.Interruptible(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			<-over // what does not hear
			return context.Cause(ctx)
		})
	}()
	signals <- os.Interrupt
	signals <- syscall.SIGTERM
	if code := <-exited; code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d", code)
	}
	close(over)
	if err := <-ended; !IsInterrupt(err) {
		t.Errorf("ended with %v, want %T", err, &cli.Interrupted{})
	}
}
