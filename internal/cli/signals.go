package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Interrupted is the cause of a context that was ended by a signal.
//
//nolint:errname // a signal is not a failure
type Interrupted struct {
	Signal os.Signal
}

// Error names the signal.
func (i *Interrupted) Error() string {
	if i.Signal == os.Interrupt {
		return "interrupted"
	}
	return "stopped by a signal: " + i.Signal.String()
}

func (i *Interrupted) code() int {
	if n, ok := i.Signal.(syscall.Signal); ok {
		return codeSignal + int(n)
	}
	return CodeFailed
}

// withSignals returns a context that the first SIGINT or SIGTERM ends. The second one calls
// exit. stop restores the default behavior of the signals.
func withSignals(parent context.Context, exit func(code int)) (ctx context.Context, stop func()) {
	signals := make(chan os.Signal, 2) // both may arrive before the first is read
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, end := Watch(parent, signals, exit)
	return ctx, func() {
		signal.Stop(signals)
		end()
	}
}

// Watch is withSignals for a caller that already receives signals. end stops it.
func Watch(parent context.Context, signals <-chan os.Signal, exit func(int)) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(parent)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for first := true; ; first = false {
			select {
			case s := <-signals:
				if !first {
					exit((&Interrupted{s}).code())
					return
				}
				cancel(&Interrupted{s})
			case <-over:
				return
			}
		}
	}()
	return ctx, func() {
		close(over)
		<-done
		cancel(nil)
	}
}
