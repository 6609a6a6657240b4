package main

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/cli"
)

func TestTheSecondSignalEndsTheProcess(t *testing.T) {
	t.Parallel()
	signals, exited := make(chan os.Signal), make(chan int, 1)
	a := &app.App{Signals: signals, Exit: func(code int) { exited <- code }}
	ended := make(chan error, 1)
	over := make(chan struct{})
	go func() {
		ended <- a.Interruptible(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			<-over // ignores its context
			return context.Cause(ctx)
		})
	}()
	signals <- os.Interrupt
	signals <- syscall.SIGTERM
	if code := <-exited; code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d", code)
	}
	close(over)
	if err := <-ended; !app.IsInterrupt(err) {
		t.Errorf("ended with %v, want %T", err, &cli.Interrupted{})
	}
}

func TestALineOfATerminalIsWhatWasTypedOrPastedAtOnce(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 4095)
	typed := "one\r\n\n\x1b[200~two\nthree\n\nfour\x1b[201~ and more\n\x1b[200~five\x1b[201~\n" + long + "\nsix"
	want := []app.Line{{Text: "one"}, {}, {Text: "two\nthree\n\nfour and more"}, {Text: "five"}, {Text: long, Cut: true}, {Text: "six"}, {Err: io.EOF}}
	for _, isTerminal := range []bool{true, false} {
		a := app.App{Terminal: app.Terminal{In: strings.NewReader(typed), IsIn: isTerminal}}
		var got []app.Line
		for line := range a.Lines() {
			if got = append(got, line); line.Err != nil {
				break
			}
		}
		if isTerminal && !slices.Equal(got, want) {
			t.Errorf("lines %+v, want %+v", got, want)
		}
		if !isTerminal && (len(got) != 10 || slices.ContainsFunc(got, func(l app.Line) bool { return l.Cut })) {
			t.Errorf("without a terminal: %+v", got)
		}
	}
}

func TestATerminalIsAskedToMarkPastes(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	a := app.App{Terminal: app.Terminal{IsIn: true, Control: &b}}
	a.MarkPastes()()
	if b.String() != "\x1b[?2004h\x1b[?2004l" {
		t.Errorf("sent %q", b.String())
	}
}
