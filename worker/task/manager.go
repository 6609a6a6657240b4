package task

import (
	"context"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// Manager says how the calls of a session run: where the round waits for them, how
// many run beside one another, and who runs them. Its answers about a call are
// recorded with the call, so that no replay asks again. Implementations are safe for
// concurrent use. [Simple] and [Async] run calls in this process; a manager of a
// host may send them elsewhere.
type Manager interface {
	// Route says how the loop waits for a call, given what its tool asks for. Of the
	// answer only Route, DetachAfter, Quiet and Manual count.
	Route(c content.ToolCall, r content.Routing) content.Routing
	// Parallel is how many calls of a round may run beside one another, of the n
	// that the session is configured for (0 and 1: one; negative: all). It returns an
	// error if the manager cannot do that.
	Parallel(n int) (int, error)
	// Run runs one attempt and returns its result; local runs the tool in this
	// process. It comes back promptly when ctx ends.
	Run(ctx context.Context, t Task, local func(context.Context) tool.Result) tool.Result
}

// Info is what is known of a call that is not over.
type Info struct {
	Call       content.CallID `json:"call"`
	Place      content.Place  `json:"place"`
	Turn       content.TurnID `json:"turn"`
	Round      int            `json:"round"`
	Tool       string         `json:"tool"`
	Attempt    int            `json:"attempt,omitempty"` // zero: not yet started
	Running    bool           `json:"running"`           // an attempt is out
	Background bool           `json:"background"`        // the round does not wait for it
	Queue      string         `json:"queue,omitempty"`
	Deadline   content.Time   `json:"deadline,omitempty"`
}

// Simple returns the manager that runs calls inline: one at a time, in call order,
// the round waiting for each, whatever the tools ask for.
func Simple() Manager { return simple{} }

type simple struct{}

// Route makes every call one of the foreground.
func (simple) Route(_ content.ToolCall, r content.Routing) content.Routing {
	r.Route, r.DetachAfter = content.Foreground, 0
	return r
}

// Parallel refuses more than one.
func (simple) Parallel(n int) (int, error) {
	if n < 0 || n > 1 {
		return 0, errOneByOne
	}
	return 1, nil
}

// Run runs the call here.
func (simple) Run(ctx context.Context, _ Task, local func(context.Context) tool.Result) tool.Result {
	return local(ctx)
}

// RouteFunc says how the loop waits for a call; after counts for
// [content.DetachSoon].
type RouteFunc func(c content.ToolCall, r content.Routing) (route content.Route, after time.Duration)

// AsyncConfig says what an asynchronous manager does with what outlives its round.
type AsyncConfig struct {
	Route  RouteFunc // nil: as each tool asks for
	Quiet  bool      // an outcome that comes later waits for input instead of starting a turn
	Manual bool      // an outcome that comes later goes to the host, which drains it, and never to the model
}

// Async returns the manager that runs calls in goroutines, beside one another as far
// as the session allows, and lets them go on in the background of the session.
func Async(c AsyncConfig) Manager { return async{c} }

type async struct{ cfg AsyncConfig }

// Route is what the configuration, or else the tool, asks for.
func (a async) Route(c content.ToolCall, r content.Routing) content.Routing {
	if a.cfg.Route != nil {
		r.Route, r.DetachAfter = a.cfg.Route(c, r)
	}
	r.Quiet, r.Manual = a.cfg.Quiet, a.cfg.Manual
	return r
}

// Parallel is what the session is configured for.
func (async) Parallel(n int) (int, error) { return n, nil }

// Run runs the call here.
func (async) Run(ctx context.Context, _ Task, local func(context.Context) tool.Result) tool.Result {
	return local(ctx)
}
