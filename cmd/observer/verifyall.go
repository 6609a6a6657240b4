package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
)

// judgeAll verifies sessions, as many at once as there are processors, and reports each in order.
func (v *verifier) judgeAll(ctx context.Context, cell *cli.Cell, sessions []content.SessionID) error {
	return v.reportAll(ctx, v.progress(len(sessions)), sessions, func(s content.SessionID) judgment { return v.judge(ctx, cell, s) })
}

// reportAll is judgeAll with a function that judges a session. It ends with ctx.
func (v *verifier) reportAll(ctx context.Context, bar *progressBar, sessions []content.SessionID, judge func(content.SessionID) judgment) error {
	judged := make([]chan judgment, len(sessions))
	for i := range judged {
		judged[i] = make(chan judgment, 1) // the worker need not wait until it is reported
	}
	var work errgroup.Group
	work.SetLimit(runtime.GOMAXPROCS(0) + 1) // one goroutine only starts the others
	work.Go(func() error {
		for i, s := range sessions {
			work.Go(func() error {
				judged[i] <- judge(s)
				return nil
			})
		}
		return nil
	})
	var failed []error
	for i := range sessions {
		bar.show(i)
		j := <-judged[i]
		bar.clear()
		if j.err != nil && ctx.Err() != nil {
			failed = append(failed, fmt.Errorf("%w: %d of %s are verified", context.Cause(ctx), i, render.Plural(len(sessions), "session", "sessions")))
			break
		}
		failed = append(failed, v.report(j))
	}
	_ = work.Wait() // no work fails
	return worst(failed)
}

// progress returns a bar that shows on a terminal how many sessions are verified.
func (v *verifier) progress(all int) *progressBar {
	if out := v.cmd.ErrOrStderr(); all > 1 && cli.IsTerminal(out) {
		return &progressBar{out, all}
	}
	return nil
}

// progressBar is the last line of a terminal. Whatever else is printed there comes after clear. A nil bar shows nothing.
type progressBar struct {
	out io.Writer
	all int
}

const barWidth = 24

func (b *progressBar) show(done int) {
	if b != nil {
		full := done * barWidth / b.all
		_, _ = fmt.Fprintf(b.out, "\r[%s%s] %d of %d sessions\x1b[K", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), done, b.all) // the screen may be gone
	}
}

func (b *progressBar) clear() {
	if b != nil {
		_, _ = fmt.Fprint(b.out, "\r\x1b[K") // likewise
	}
}

// worst joins the errors of several sessions. The exit code is the one of the most serious error: first a fault, then a
// journal that cannot be judged, then a deleted session, then one below the required level.
func worst(errs []error) error {
	gravity := []int{cli.CodeFailed, cli.CodeUnjudged, cli.CodeGone, cli.CodeBelow}
	rank := func(err error) int {
		if e, ok := errors.AsType[*cli.ExitError](err); ok {
			return slices.Index(gravity, e.Code)
		}
		return 0
	}
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	slices.SortStableFunc(errs, func(a, b error) int { return rank(a) - rank(b) })
	return errors.Join(errs...)
}
