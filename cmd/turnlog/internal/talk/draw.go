package talk

import (
	"context"
	"os"
	"path/filepath"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/console"
)

// draw makes the chat use a console until end is called, if its terminal supports one.
func (f *talkFlags) draw(ctx context.Context) (end func(), err error) {
	a := f.app
	if !a.IsIn || !a.IsOut || a.Control == nil {
		return func() {}, nil
	}
	cfg := console.Config{In: a.In, Out: a.Control, Color: a.Style.Color, Complete: completions}
	if dir := a.StateDir(); dir != "" && !f.seal && (f.store != "" || f.remote.Named()) {
		if err := os.MkdirAll(dir, 0o700); err == nil {
			cfg.History = filepath.Join(dir, "history")
		}
	}
	c, err := console.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	before, signals, over := *a, make(chan os.Signal, cap(c.Interrupts)), make(chan struct{})
	go func() {
		for {
			var s os.Signal
			select {
			case s = <-before.Signals:
			case s = <-c.Interrupts:
			case <-over:
				return
			}
			select {
			case signals <- s:
			default: // further signals add nothing
			}
		}
	}()
	a.Out, a.Err, a.Control = render.Terminal(c.Replies()), render.Terminal(c.Notes()), nil
	a.Questions = render.Terminal(c.Questions())
	a.Logs.Redirect(a.Err)
	a.Signals, a.Typed, a.Ready = signals, c.Lines, c.Ready
	a.Exit = func(code int) {
		_ = c.Close() // the process ends
		before.Exit(code)
	}
	return func() {
		if err := c.Close(); err != nil {
			before.Complain(err)
		}
		close(over)
		*a = before
		a.Logs.Redirect(a.Err)
	}, nil
}
