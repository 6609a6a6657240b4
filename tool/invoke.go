package tool

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/turnlog/turnlog/content"
)

// Invoker runs calls. The zero value is ready for use.
type Invoker struct {
	// MaxOutput is how many bytes of output a result may have; what is more is cut
	// out of its middle. Zero: 1 MiB.
	MaxOutput int
	// Grace is how long a tool may go on after its time is over, to clean up or to
	// hand in a result after all. Zero: 5 s.
	Grace time.Duration
	// OnPanic is told of panics, with the stack that the model is not shown, on the
	// goroutine that broke. Nil: nobody is told.
	OnPanic func(c Call, value any, stack []byte)
}

const (
	defaultMaxOutput = 1 << 20
	defaultGrace     = 5 * time.Second
)

// Invoke runs one call of t with the zero [Invoker].
func Invoke(ctx context.Context, t Tool, c Call) Result { return Invoker{}.Invoke(ctx, t, c) }

// Invoke runs one call of t and returns its result; there always is one. The input
// is checked first. The tool's time ends with ctx or after its spec's timeout; a
// tool that does not come back within the grace is abandoned: its goroutine is left
// to itself, whatever it still does, the result says so under [MetaAbandoned],
// and nothing that it hands in later is seen.
//
// Panics are results too. What ends the whole process is not isolated: os.Exit,
// and the errors of the Go runtime that cannot be recovered from.
func (v Invoker) Invoke(ctx context.Context, t Tool, c Call) Result {
	start := time.Now()
	r := v.invoke(ctx, t, c)
	r.Duration = time.Since(start)
	return r
}

func (v Invoker) invoke(ctx context.Context, t Tool, c Call) Result {
	c.Input = append([]byte(nil), orEmpty(c.Input)...) // an abandoned tool must not share it
	spec, err := v.prepare(t, c)
	if c.Name == "" {
		c.Name = spec.Name
	}
	if err != nil {
		return v.failed(c, err)
	}
	limit := spec.Timeout
	if deadline, ok := ctx.Deadline(); ok {
		if left := time.Until(deadline); limit <= 0 || left < limit {
			limit = max(0, left.Round(time.Millisecond))
		}
	}
	if spec.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, spec.Timeout)
		defer cancel()
	}
	if ctx.Err() != nil {
		return ended(ctx, c, limit)
	}
	out, err := v.run(ctx, t, c)
	switch {
	case err == nil:
		return v.succeeded(spec, c, out)
	case ctx.Err() == nil:
		return v.failed(c, err)
	}
	r := ended(ctx, c, limit)
	if errors.Is(err, errAbandoned) {
		r.Result.Metadata = r.Result.Metadata.With(MetaAbandoned, true)
	}
	return r
}

// prepare asks the tool for its spec and checks the input.
func (v Invoker) prepare(t Tool, c Call) (spec Spec, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = v.panicked(c, value)
		}
	}()
	return t.Spec(), Validate(t, c.Input)
}

var (
	errAbandoned = errors.New("the tool did not end with its time")
	errExited    = &Error{Code: CodePanic, Message: "its goroutine ended without a result"}
)

// run waits for the call, but not longer than ctx and the grace.
func (v Invoker) run(ctx context.Context, t Tool, c Call) (Output, error) {
	type outcome struct {
		out Output
		err error
	}
	var over atomic.Bool
	defer over.Store(true)
	c.Progress = progress(&over, c.Progress)
	done := make(chan outcome, 1) // an abandoned tool must be able to end
	go func() {
		o := outcome{err: errExited} // for what runtime.Goexit leaves behind
		defer func() {
			if value := recover(); value != nil {
				o = outcome{err: v.panicked(c, value)}
			}
			done <- o
		}()
		if o.out, o.err = t.Call(ctx, c); o.err != nil {
			o.err = asError(o.err) // here, because it runs methods of the tool's error
		}
	}()

	select {
	case o := <-done:
		return o.out, o.err
	case <-ctx.Done():
	}
	grace := v.Grace
	if grace <= 0 {
		grace = defaultGrace
	}
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case o := <-done:
		return o.out, o.err
	case <-patience.C:
		return Output{}, errAbandoned
	}
}

func (v Invoker) panicked(c Call, value any) error {
	if v.OnPanic != nil {
		v.OnPanic(c, value, debug.Stack())
	}
	return &Error{Code: CodePanic, Message: clipText(fmt.Sprintf("it broke: %v", value), 1000)}
}

// progress passes on what the tool says while it runs, in a form that can be
// shown.
func progress(over *atomic.Bool, report func(string, float64)) func(string, float64) {
	return func(text string, share float64) {
		if report == nil || over.Load() {
			return
		}
		if math.IsNaN(share) {
			share = 0
		}
		report(clipText(string(valid([]byte(text))), 1000), min(max(share, 0), 1))
	}
}

// ended is the result of a call whose time was over before it had one.
func ended(ctx context.Context, c Call, limit time.Duration) Result {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Result{Result: content.NewResult(c.ID, c.Name, content.StatusCancelled, "Cancelled before it reported a result")}
	}
	r := content.NewResult(c.ID, c.Name, content.StatusError, fmt.Sprintf("Tool timed out after %s", limit))
	r.Code = CodeTimeout
	return Result{Result: r}
}
