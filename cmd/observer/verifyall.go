package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
)

// judgeAll verifies sessions, as many at once as there are processors, and reports each in order.
func (v *verifier) judgeAll(ctx context.Context, cell *cli.Cell, sessions []content.SessionID) error {
	judged := make([]chan judgment, len(sessions))
	for i := range judged {
		judged[i] = make(chan judgment, 1) // the worker need not wait until it is reported
	}
	var work errgroup.Group
	work.SetLimit(runtime.GOMAXPROCS(0) + 1) // one only starts the others
	work.Go(func() error {
		for i, s := range sessions {
			work.Go(func() error {
				judged[i] <- v.judge(ctx, cell, s)
				return nil
			})
		}
		return nil
	})
	shown := v.progress(len(sessions))
	var failed []error
	for i := range sessions {
		j := <-judged[i]
		shown(i + 1)
		failed = append(failed, v.report(j))
	}
	_ = work.Wait() // no work fails
	return worst(failed)
}

// progress returns a function that shows on a terminal how many sessions are verified.
func (v *verifier) progress(all int) func(done int) {
	out := v.cmd.ErrOrStderr()
	if all < 2 || !cli.IsTerminal(out) {
		return func(int) {}
	}
	return func(done int) {
		_, _ = fmt.Fprintf(out, "\r%d of %d sessions\x1b[K", done, all) // the screen may be gone
		if done == all {
			_, _ = fmt.Fprint(out, "\r\x1b[K")
		}
	}
}

// worst joins the errors of several sessions. The exit code is that of the gravest: a fault, then what cannot be
// judged, then what is gone, then what is below the required level.
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
