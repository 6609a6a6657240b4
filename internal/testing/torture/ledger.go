package torture

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// The tools, whose runs the ledger counts.
const (
	toolRead  = "torture_read"  // only reads
	toolPut   = "torture_put"   // idempotent
	toolAdd   = "torture_add"   // must not run twice
	toolLater = "torture_later" // must not run twice, runs in the background
	toolLong  = "torture_long"  // idempotent, detached after a while
)

// detachAfter is when a long call moves to the background.
const detachAfter = 250 * time.Millisecond

// harmful reports whether no call of the tool may run twice.
func harmful(name string) bool { return name == toolAdd || name == toolLater }

// ledger counts what tools did, independently of Turnlog. It is safe for concurrent use.
type ledger struct {
	mu   sync.Mutex
	runs map[callKey]runCount
}

// callKey is a call of a session.
type callKey struct {
	session content.SessionID
	call    content.CallID
}

// runCount is what was done for a call.
type runCount struct {
	key   string // the idempotency key
	tool  string
	times int
	keys  int // different idempotency keys
}

func newLedger() *ledger { return &ledger{runs: make(map[callKey]runCount)} }

// errDead ends a tool whose worker was killed.
var errDead = errors.New("the worker is dead")

// do counts one run of a call, unless its worker is dead.
func (l *ledger) do(c tool.Call, dead <-chan struct{}) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-dead:
		return errDead
	default:
	}
	k := callKey{c.Session, c.ID}
	d := l.runs[k]
	if d.key != c.IdempotencyKey {
		d.keys++
	}
	d.key, d.tool, d.times = c.IdempotencyKey, c.Name, d.times+1
	l.runs[k] = d
	return nil
}

// all returns what was done and empties the ledger.
func (l *ledger) all() map[callKey]runCount {
	l.mu.Lock()
	defer l.mu.Unlock()
	runs := l.runs
	l.runs = make(map[callKey]runCount)
	return runs
}

// work is the input of every tool.
type work struct {
	Ms int `json:"ms" jsonschema:"how long it takes"`
}

// tools returns the tools of one worker. They do nothing once it is dead.
func (l *ledger) tools(dead <-chan struct{}) ([]tool.Tool, error) {
	run := func(ctx context.Context, c tool.Call, w work) (string, error) {
		half := time.Duration(w.Ms) * time.Millisecond / 2
		if err := wait(ctx, half, dead); err != nil {
			return "", err
		}
		if err := l.do(c, dead); err != nil {
			return "", err
		}
		if err := wait(ctx, half, dead); err != nil {
			return "", err
		}
		return "done", nil
	}
	var out []tool.Tool
	for _, s := range []struct {
		name, does string
		options    []tool.Option
	}{
		{toolRead, "Reads for a while.", []tool.Option{tool.ReadOnly()}},
		{toolPut, "Puts a thing where it belongs.", []tool.Option{tool.Idempotent()}},
		{toolAdd, "Adds one, and must not be run twice.", nil},
		{toolLater, "Adds one in the background, and must not be run twice.", []tool.Option{
			tool.WithSpec(func(s *tool.Spec) { s.Route = content.Background }),
		}},
		{toolLong, "Takes long.", []tool.Option{
			tool.Idempotent(), tool.WithSpec(func(s *tool.Spec) { s.Route, s.DetachAfter = content.DetachSoon, detachAfter }),
		}},
	} {
		t, err := tool.CallFunc(s.name, s.does, run, s.options...)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// wait waits, unless the call is canceled or its worker dies.
func wait(ctx context.Context, d time.Duration, dead <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-dead:
		return errDead
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
