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
	// MaxOutput is how many bytes of output a result may have. Longer output loses its
	// middle. Zero: 1 MiB.
	MaxOutput int
	// Grace is how long a tool may run past its deadline, to clean up or still return
	// a result. Zero: 5 s.
	Grace time.Duration
	// OnQuestion is called, before Invoke returns, if a call needs an approval; see
	// [NeedsApproval]. The result says that the call was denied, for hosts that cannot
	// ask a person. May be nil.
	OnQuestion func(c Call, v Verdict)
	// OnBegin is called just before the tool runs: its input is valid, and no other call
	// is running in an Exclusive tool. May be nil.
	OnBegin func(c Call)
	// OnPanic is called on the goroutine that panicked, with the stack, which the model
	// does not see. May be nil.
	OnPanic func(c Call, value any, stack []byte)
}

const (
	defaultMaxOutput = 1 << 20
	defaultGrace     = 5 * time.Second
)

// ErrCancelled is the cause with which a call's context ends when the call was cancelled. The cause
// may wrap it to add the reason.
var ErrCancelled = errors.New("call cancelled")

// TimeoutError is the cause of a call's context when its deadline passes. A host that
// limits a call passes it to [context.WithTimeoutCause], so that the result names the
// configured timeout and not the time that remained when the tool started.
type TimeoutError struct {
	After time.Duration
}

// Error names the timeout.
func (e *TimeoutError) Error() string { return fmt.Sprintf("the timeout of %s has passed", e.After) }

// Unwrap makes the error match context.DeadlineExceeded.
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// Invoke runs one call of t with the zero [Invoker].
func Invoke(ctx context.Context, t Tool, c Call) Result { return Invoker{}.Invoke(ctx, t, c) }

// Invoke runs one call of t. It always returns a result.
//
// It checks the input first. A call of an Exclusive tool then waits until no call of any
// session is running in it, if the tool is compiled, as the tools of a [Registry] are.
// Only then does the spec's timeout start. A tool that does not return within the grace
// period after its deadline is abandoned: its goroutine keeps running, the result has
// [MetaAbandoned], and whatever the tool returns later is dropped.
//
// A panic becomes a result too. os.Exit and fatal errors of the Go runtime still end
// the process.
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
	var limit time.Duration // for a deadline without a TimeoutError
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
	if e, ok := errors.AsType[*Error](err); ok { // usage counts even without an output
		r.Usage, r.Counts = e.Usage, e.Counts
	}
	if errors.Is(err, errAbandoned) {
		r.Result.Metadata = r.Result.Metadata.With(MetaAbandoned, true)
	}
	return r
}

// enter waits for an exclusive tool's other call to return, or for ctx to end. The
// caller must call leave in either case.
func enter(ctx context.Context, t Tool) (leave func()) {
	c, ok := t.(*compiled)
	if !ok || c.slot == nil {
		return func() {}
	}
	select {
	case c.slot <- struct{}{}:
		return func() { <-c.slot }
	case <-ctx.Done():
		return func() {}
	}
}

// prepare reads the tool's spec and checks the input.
func (v Invoker) prepare(t Tool, c Call) (spec Spec, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = v.panicked(c, value)
		}
	}()
	return t.Spec(), Validate(t, c.Input)
}

var (
	errAbandoned = errors.New("the tool ignored its deadline")
	errExited    = &Error{Code: CodePanic, Message: "its goroutine ended without a result"}
)

// run waits for the call, but no longer than ctx and the grace period.
func (v Invoker) run(ctx context.Context, t Tool, c Call) (Output, error) {
	type outcome struct {
		out Output
		err error
	}
	progress := &progress{send: c.Progress}
	defer progress.end()
	c.Progress = progress.report
	done := make(chan outcome, 1) // an abandoned tool must not block
	go func() {
		o := outcome{err: errExited} // if the tool calls runtime.Goexit
		defer func() {
			if value := recover(); value != nil {
				o = outcome{err: v.panicked(c, value)}
			}
			done <- o
		}()
		if o.out, o.err = t.Call(ctx, c); o.err != nil {
			o.err = asError(o.err) // on this goroutine, because it calls methods of the tool's error
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
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case o := <-done:
		return o.out, o.err
	case <-timer.C:
		return Output{}, errAbandoned
	}
}

func (v Invoker) panicked(c Call, value any) error {
	if v.OnPanic != nil {
		v.OnPanic(c, value, debug.Stack())
	}
	return &Error{Code: CodePanic, Message: content.Clip(fmt.Sprintf("it panicked: %v", value), 1000)}
}

// ended returns the result of a call whose context ended first.
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
