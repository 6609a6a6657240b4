package task

import (
	"context"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// Manager decides how the calls of a session run: how the round waits for them, how many run in
// parallel, and where. Its answers are recorded with the call, so a replay does not ask again.
// Implementations are safe for concurrent use. [Simple] and [Async] run calls in this process; a
// host's own manager may send them elsewhere.
type Manager interface {
	// Route decides how the loop waits for a call; r is the tool's own routing. Only
	// Route, DetachAfter, Quiet and Manual of the answer count.
	Route(c content.ToolCall, r content.Routing) content.Routing
	// Parallel returns how many calls of a round may run in parallel, given the n that the
	// session is configured for (0 and 1: one; negative: all). It returns an error if the
	// manager does not support n.
	Parallel(n int) (int, error)
	// Run runs one attempt and returns its result; local runs the tool in this
	// process. It returns promptly when ctx ends.
	Run(ctx context.Context, t Task, local func(context.Context) tool.Result) tool.Result
}

// Info describes an open call.
type Info struct {
	Call       content.CallID `json:"call"`
	Place      content.Place  `json:"place"`
	Turn       content.TurnID `json:"turn"`
	Round      int            `json:"round"`
	Tool       string         `json:"tool"`
	Attempt    int            `json:"attempt,omitempty"` // zero: not yet started
	Running    bool           `json:"running"`           // an attempt is running
	Background bool           `json:"background"`        // the round does not wait for it
	Queue      string         `json:"queue,omitempty"`
	Deadline   content.Time   `json:"deadline,omitempty"`
}

// local runs calls in this process.
type local struct{}

// Run runs the call here.
func (local) Run(ctx context.Context, _ Task, run func(context.Context) tool.Result) tool.Result {
	return run(ctx)
}

// Simple returns the manager that runs calls inline: one at a time and in call order. The round
// waits for each, whatever route its tool has.
func Simple() Manager { return simple{} }

type simple struct{ local }

// Route keeps every call in the foreground.
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

// RouteFunc decides how the loop waits for a call; after is for [content.DetachSoon].
type RouteFunc func(c content.ToolCall, r content.Routing) (route content.Route, after time.Duration)

// AsyncConfig configures an asynchronous manager.
type AsyncConfig struct {
	Route  RouteFunc // nil: each tool's own route
	Quiet  bool      // a late outcome waits for input instead of starting a turn
	Manual bool      // a late outcome goes to the host, through Calls.Drain, and never to the model
}

// Async returns the manager that runs calls in parallel, as far as the session allows, and lets
// them continue in the background.
func Async(c AsyncConfig) Manager { return async{cfg: c} }

type async struct {
	local
	cfg AsyncConfig
}

// Route returns the configuration's route, or else the tool's.
func (a async) Route(c content.ToolCall, r content.Routing) content.Routing {
	if a.cfg.Route != nil {
		r.Route, r.DetachAfter = a.cfg.Route(c, r)
	}
	r.Quiet, r.Manual = a.cfg.Quiet, a.cfg.Manual
	return r
}

// Parallel returns what the session is configured for.
func (async) Parallel(n int) (int, error) { return n, nil }
