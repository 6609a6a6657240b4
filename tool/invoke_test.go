package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// plain is a tool that was not made by Func.
type plain struct {
	spec tool.Spec
	call func(ctx context.Context, c tool.Call) (tool.Output, error)
}

func (p plain) Spec() tool.Spec { return p.spec }

func (p plain) Call(ctx context.Context, c tool.Call) (tool.Output, error) { return p.call(ctx, c) }

func failing(err error) plain {
	return plain{
		spec: tool.Spec{Name: "fails"},
		call: func(context.Context, tool.Call) (tool.Output, error) { return tool.Output{}, err },
	}
}

func returning(out tool.Output) plain {
	return plain{
		spec: tool.Spec{Name: "returns", Writes: true},
		call: func(context.Context, tool.Call) (tool.Output, error) { return out, nil },
	}
}

type brokenError struct{ text string }

func (e *brokenError) Error() string { return e.text }

func TestEveryFailureBecomesAResultWithItsText(t *testing.T) {
	t.Parallel()
	auth := tool.AuthRequired(tool.AuthRequest{
		ID: "a1", Provider: "github", Operation: tool.AuthOperation{Kind: "tool_call", Name: "issues"},
	})
	var broken *brokenError
	for name, row := range map[string]struct {
		err        error
		text, code string
	}{
		"plain":        {errors.New("disk full"), "Tool failed: disk full", "failed"},
		"own code":     {tool.Failure("disk_full", "no %s", "space"), "Tool failed: no space", "disk_full"},
		"no code":      {&tool.Error{Message: "odd"}, "Tool failed: odd", "failed"},
		"wrapped":      {fmt.Errorf("open: %w", tool.Failure("gone", "no file")), "Tool failed: no file", "gone"},
		"retry":        {tool.Retry("Use a date after 2020."), "Use a date after 2020.", "model_retry"},
		"denied":       {tool.Denied("not %q", "/etc"), `Tool failed: not "/etc"`, "permission_denied"},
		"auth":         {auth, "Authorization required: github: tool_call", "auth_required"},
		"arguments":    {&tool.Error{Code: tool.CodeInvalidArguments, Message: "a and b exclude each other"}, "Invalid arguments: a and b exclude each other", "invalid_arguments"},
		"not found":    {tool.NotFound("nope"), "Tool not found: nope", "not_found"},
		"own missing":  {tool.Failure(tool.CodeNotFound, "no such page"), "Tool failed: no such page", "not_found"},
		"own deadline": {context.DeadlineExceeded, "Tool failed: context deadline exceeded", "failed"},
		"nil pointer":  {broken, "Tool failed: it panicked: runtime error: invalid memory address or nil pointer dereference", "panic"},
		"invalid text": {errors.New("bad \xff byte"), "Tool failed: bad \uFFFD byte", "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := tool.Invoke(t.Context(), failing(row.err), tool.Call{ID: "c1"}).Result
			if r.Text() != row.text || r.Code != row.code {
				t.Errorf("text %q, code %q; want %q, %q", r.Text(), r.Code, row.text, row.code)
			}
			if r.Status != content.StatusError || !r.IsError || r.CallID != "c1" || r.Name != "fails" {
				t.Errorf("result = %+v, want an error of call c1 of tool fails", r)
			}
		})
	}
}

func TestAuthorizationIsInTheResult(t *testing.T) {
	t.Parallel()
	want := `{"id":"a1","provider":"github","operation":{"kind":"connect","server":"s"}}`
	r := tool.Invoke(t.Context(), failing(tool.AuthRequired(tool.AuthRequest{
		ID: "a1", Provider: "github", Operation: tool.AuthOperation{Kind: "connect", Server: "s"},
	})), tool.Call{ID: "c1"})
	if string(r.Auth) != want {
		t.Errorf("Auth = %s, want %s", r.Auth, want)
	}
	if got, _ := r.Result.Metadata.Get(content.MetaAuthRequest); string(got) != want {
		t.Errorf("metadata = %s, want %s", got, want)
	}
}

func TestPanicIsAResultAndItsStackGoesToTheHost(t *testing.T) {
	t.Parallel()
	var stack string
	invoker := tool.Invoker{OnPanic: func(c tool.Call, value any, s []byte) {
		stack = fmt.Sprint(c.ID, " ", value, " ", string(s))
	}}
	r := invoker.Invoke(t.Context(), plain{call: func(context.Context, tool.Call) (tool.Output, error) {
		panic("no such state")
	}}, tool.Call{ID: "c1"}).Result
	if r.Text() != "Tool failed: it panicked: no such state" || r.Code != tool.CodePanic {
		t.Errorf("result = %q, code %q", r.Text(), r.Code)
	}
	if !strings.HasPrefix(stack, "c1 no such state ") || !strings.Contains(stack, "invoke_test.go") {
		t.Errorf("OnPanic got %q, want the call, the value and the stack", stack)
	}
}

func TestGoexitIsAResult(t *testing.T) {
	t.Parallel()
	r := tool.Invoke(t.Context(), plain{call: func(context.Context, tool.Call) (tool.Output, error) {
		runtime.Goexit()
		return tool.Output{}, nil
	}}, tool.Call{ID: "c1"}).Result
	if r.Text() != "Tool failed: its goroutine ended without a result" || r.Code != tool.CodePanic {
		t.Errorf("result = %q, code %q", r.Text(), r.Code)
	}
}

type panickySpec struct{ plain }

func (panickySpec) Spec() tool.Spec { panic("no spec") }

func TestPanicOfSpecIsAResult(t *testing.T) {
	t.Parallel()
	r := tool.Invoke(t.Context(), panickySpec{}, tool.Call{ID: "c1", Name: "n"}).Result
	if r.Text() != "Tool failed: it panicked: no spec" || r.Name != "n" {
		t.Errorf("result = %q of %q", r.Text(), r.Name)
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		timeout, deadline time.Duration
		want              string
	}{
		"spec":             {30 * time.Second, 0, "Tool timed out after 30s"},
		"context":          {0, 90 * time.Second, "Tool timed out after 1m30s"},
		"the earlier spec": {time.Second, time.Minute, "Tool timed out after 1s"},
		"the earlier ctx":  {time.Minute, time.Second, "Tool timed out after 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if row.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, row.deadline)
					defer cancel()
				}
				obedient := plain{
					spec: tool.Spec{Timeout: row.timeout},
					call: func(ctx context.Context, _ tool.Call) (tool.Output, error) {
						<-ctx.Done()
						return tool.Output{}, errors.New("killed")
					},
				}
				r := tool.Invoke(ctx, obedient, tool.Call{ID: "c1"})
				if got := r.Result; got.Text() != row.want || got.Code != tool.CodeTimeout || got.Status != content.StatusError {
					t.Errorf("result = %q, %q, %q; want %q", got.Text(), got.Code, got.Status, row.want)
				}
				if len(r.Result.Metadata) != 0 {
					t.Errorf("metadata = %v, want none", r.Result.Metadata)
				}
			})
		})
	}
}

func TestTimeoutNamesTheConfiguredTime(t *testing.T) {
	t.Parallel()
	obedient := plain{call: func(ctx context.Context, _ tool.Call) (tool.Output, error) {
		<-ctx.Done()
		return tool.Output{}, context.Cause(ctx)
	}}
	for name, timeout := range map[string]time.Duration{"the host's": 0, "beside its own": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, &tool.TimeoutError{After: 100 * time.Millisecond})
				defer cancel()
				<-time.After(2 * time.Millisecond)
				x := obedient
				x.spec.Timeout = timeout
				r := tool.Invoke(ctx, x, tool.Call{ID: "c1"}).Result
				if r.Text() != "Tool timed out after 100ms" || r.Code != tool.CodeTimeout {
					t.Errorf("result = %q, %s", r.Text(), r.Code)
				}
				if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) || !strings.Contains(context.Cause(ctx).Error(), "100ms") {
					t.Errorf("cause = %v", context.Cause(ctx))
				}
			})
		})
	}
}

func TestToolThatIgnoresItsDeadlineIsAbandoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		reports := 0
		deaf := plain{
			spec: tool.Spec{Timeout: time.Minute},
			call: func(_ context.Context, c tool.Call) (tool.Output, error) {
				c.Progress("starting", 0)
				<-release
				c.Progress("still here", 1)
				return tool.Text("too late"), nil
			},
		}
		invoker := tool.Invoker{Grace: 3 * time.Second}
		r := invoker.Invoke(t.Context(), deaf, tool.Call{ID: "c1", Progress: func(string, float64) { reports++ }})
		if r.Duration != 63*time.Second {
			t.Errorf("returned after %s, want the timeout and the grace", r.Duration)
		}
		if got := r.Result.Text(); got != "Tool timed out after 1m0s" {
			t.Errorf("text = %q", got)
		}
		if v, _ := r.Result.Metadata.Get(tool.MetaAbandoned); string(v) != "true" {
			t.Errorf("metadata = %v, want %s", r.Result.Metadata, tool.MetaAbandoned)
		}
		close(release)
		synctest.Wait()
		if reports != 1 {
			t.Errorf("%d progress reports, want only the one within the deadline", reports)
		}
	})
}

func TestResultWithinTheGraceCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		late := plain{
			spec: tool.Spec{Timeout: time.Minute},
			call: func(context.Context, tool.Call) (tool.Output, error) {
				<-time.After(61 * time.Second)
				return tool.Text("done after all"), nil
			},
		}
		r := tool.Invoke(t.Context(), late, tool.Call{ID: "c1"})
		if r.Result.Status != content.StatusOK || r.Duration != 61*time.Second {
			t.Errorf("status %s after %s, want the result", r.Result.Status, r.Duration)
		}
	})
}

func TestStoppedCallReportsItsUsage(t *testing.T) {
	t.Parallel()
	used := tool.Error{Message: "stopped", Usage: content.Usage{InputTokens: 7}, Counts: tool.Counts{Requests: 2, ToolCalls: 1}}
	obedient := plain{call: func(ctx context.Context, _ tool.Call) (tool.Output, error) {
		<-ctx.Done()
		return tool.Output{}, &used
	}}
	for name, stop := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"cancelled": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		},
		"timed out": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := stop(t.Context())
				defer cancel()
				if r := tool.Invoke(ctx, obedient, tool.Call{ID: "c1"}); r.Usage != used.Usage || r.Counts != used.Counts {
					t.Errorf("result = %+v", r)
				}
			})
		})
	}
}

func TestCancelledCall(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	started := make(chan struct{})
	waiting := plain{
		spec: tool.Spec{Timeout: time.Hour},
		call: func(ctx context.Context, _ tool.Call) (tool.Output, error) {
			close(started)
			<-ctx.Done()
			return tool.Output{}, context.Cause(ctx)
		},
	}
	go func() { <-started; cancel(errors.New("stopped by a person")) }()
	r := tool.Invoke(ctx, waiting, tool.Call{ID: "c1"}).Result
	if r.Status != content.StatusCancelled || r.Text() != "Cancelled before it reported a result" || !r.IsError {
		t.Errorf("result = %+v", r)
	}

	again := tool.Invoke(ctx, returning(tool.Text("ran")), tool.Call{ID: "c2"}).Result
	if again.Status != content.StatusCancelled {
		t.Errorf("a call with an ended context ran: %+v", again)
	}
}

func TestExclusiveToolRunsOneCallAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inside, most := 0, 0
		single := plain{
			spec: tool.Spec{Name: "single", Exclusive: true, Timeout: 2 * time.Second},
			call: func(ctx context.Context, c tool.Call) (tool.Output, error) {
				inside++
				most = max(most, inside)
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
				inside--
				return tool.Output{}, ctx.Err()
			},
		}
		r, err := tool.NewRegistry("own", single)
		if err != nil {
			t.Fatal(err)
		}
		tools := []tool.Tool{only(t, r), only(t, tool.Under(tool.WrapSource(r, pass), tool.Terms{Tool: "*", MaxOutput: 100}))}
		start := time.Now()
		var calls sync.WaitGroup
		for i := range 4 {
			calls.Go(func() {
				if got := tool.Invoke(t.Context(), tools[i%2], tool.Call{ID: "c1"}).Result; got.Status != content.StatusOK {
					t.Errorf("result = %s %q: the wait must not count toward the timeout", got.Status, got.Text())
				}
			})
		}
		cancelled, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		calls.Go(func() {
			synctest.Wait()
			if got := tool.Invoke(cancelled, tools[0], tool.Call{ID: "c2"}).Result; got.Code != tool.CodeTimeout {
				t.Errorf("a call whose deadline passed while it waited: %s %q", got.Status, got.Text())
			}
		})
		calls.Wait()
		if took := time.Since(start); most != 1 || took != 4*time.Second {
			t.Errorf("%d calls at once, over %v; want 1, over 4 s", most, took)
		}
	})
}

// pass is middleware that does nothing.
func pass(ctx context.Context, c tool.Call, next tool.Handler) (tool.Output, error) {
	return next(ctx, c)
}

func TestInputIsCheckedBeforeTheToolRuns(t *testing.T) {
	t.Parallel()
	guarded := plain{
		spec: tool.Spec{Name: "g", InputSchema: json.RawMessage(`{"type":"object","required":["a"]}`)},
		call: func(context.Context, tool.Call) (tool.Output, error) {
			t.Error("the tool ran")
			return tool.Output{}, nil
		},
	}
	r := tool.Invoke(t.Context(), guarded, tool.Call{ID: "c1", Input: json.RawMessage(`{"b":1}`)}).Result
	if r.Text() != "Invalid arguments: missing property 'a'" || r.Code != tool.CodeInvalidArguments {
		t.Errorf("result = %q, code %q", r.Text(), r.Code)
	}
	guarded.spec.InputSchema = json.RawMessage(`{"type":"string"}`)
	r = tool.Invoke(t.Context(), guarded, tool.Call{ID: "c1"}).Result
	if r.Text() != "Tool failed: tool g: input schema: the schema must describe an object" {
		t.Errorf("result = %q", r.Text())
	}
}

func TestEmptyInputIsAnEmptyObject(t *testing.T) {
	t.Parallel()
	for _, input := range []string{"", " ", "null", "\tnull\n", "{}"} {
		var got string
		tool.Invoke(t.Context(), plain{call: func(_ context.Context, c tool.Call) (tool.Output, error) {
			got = string(c.Input)
			return tool.Output{}, nil
		}}, tool.Call{Input: json.RawMessage(input)})
		if got != "{}" {
			t.Errorf("input %q reached the tool as %q", input, got)
		}
	}
}
