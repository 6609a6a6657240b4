package tool

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
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
	// ProgressEvery is how often what a tool says of itself is passed on. What comes
	// sooner waits for its turn, and of what waits the newest counts, so the last word
	// is always told. Zero: 100 ms.
	ProgressEvery time.Duration
	// OnGate is told that a call needs an approval, before Invoke returns; see
	// [NeedsApproval]. The result then says that the call was denied, for hosts that
	// have nobody to ask. Nil: nobody is asked.
	OnGate func(c Call, v Verdict)
	// OnBegin is told that the tool is about to run: its input fits, and no other call is
	// in a tool that is Exclusive. Nil: nobody is told.
	OnBegin func(c Call)
	// OnPanic is told of panics, with the stack that the model is not shown, on the
	// goroutine that broke. Nil: nobody is told.
	OnPanic func(c Call, value any, stack []byte)
}

const (
	defaultMaxOutput = 1 << 20
	defaultGrace     = 5 * time.Second
	defaultProgress  = 100 * time.Millisecond
)

// TimeoutError is the cause that a call's context ends with when its time is over.
// A host that bounds a call gives it to [context.WithTimeoutCause], so that the
// result names the time that was set, and not what was left of it when the tool
// began.
type TimeoutError struct {
	After time.Duration
}

// Error says how long there was.
func (e *TimeoutError) Error() string { return fmt.Sprintf("its time of %s is over", e.After) }

// Unwrap makes it a context.DeadlineExceeded.
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// Invoke runs one call of t with the zero [Invoker].
func Invoke(ctx context.Context, t Tool, c Call) Result { return Invoker{}.Invoke(ctx, t, c) }

// Invoke runs one call of t and returns its result; there always is one. The input
// is checked first. A tool that is Exclusive gets one call at a time, of all sessions,
// if it is compiled, as those of a [Registry] are. The tool's time begins then, and
// ends with ctx or after its spec's timeout; a tool that does not come back within the
// grace is abandoned: its goroutine is left to itself, whatever it still does, the
// result says so under [MetaAbandoned], and nothing that it hands in later is seen.
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
	v.MaxOutput = tighter(v.MaxOutput, spec.MaxOutput)
	if c.Name == "" {
		c.Name = spec.Name
	}
	if err != nil {
		return v.failed(c, err)
	}
	var limit time.Duration // for a deadline that does not say how long there was
	if deadline, ok := ctx.Deadline(); ok {
		limit = max(0, time.Until(deadline).Round(time.Millisecond))
	}
	leave := enter(ctx, t)
	defer leave()
	if spec.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, spec.Timeout, &TimeoutError{After: spec.Timeout})
		defer cancel()
	}
	if ctx.Err() != nil {
		return ended(ctx, c, limit)
	}
	if v.OnBegin != nil {
		v.OnBegin(c)
	}
	out, err := v.run(ctx, t, c)
	switch {
	case err == nil:
		return v.succeeded(spec, c, out)
	case ctx.Err() == nil:
		return v.failed(c, err)
	}
	r := ended(ctx, c, limit)
	if e, ok := errors.AsType[*Error](err); ok { // what was used is paid for
		r.Usage, r.Counts = e.Usage, e.Counts
	}
	if errors.Is(err, errAbandoned) {
		r.Result.Metadata = r.Result.Metadata.With(MetaAbandoned, true)
	}
	return r
}

// enter waits until no other call is in a tool that cannot bear two, or ctx ends.
// leave must be called in either case.
func enter(ctx context.Context, t Tool) (leave func()) {
	c, ok := t.(compiler)
	if !ok || c.slot() == nil {
		return func() {}
	}
	slot := c.slot()
	select {
	case slot <- struct{}{}:
		return func() { <-slot }
	case <-ctx.Done():
		return func() {}
	}
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
	told := v.teller(c.Progress)
	defer told.end()
	c.Progress = told.tell
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

// ended is the result of a call whose time was over before it had one.
func ended(ctx context.Context, c Call, limit time.Duration) Result {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Result{Result: content.NewResult(c.ID, c.Name, content.StatusCancelled, "Cancelled before it reported a result")}
	}
	if e, ok := errors.AsType[*TimeoutError](context.Cause(ctx)); ok {
		limit = e.After
	}
	r := content.NewResult(c.ID, c.Name, content.StatusError, fmt.Sprintf("Tool timed out after %s", limit))
	r.Code = CodeTimeout
	return Result{Result: r}
}
