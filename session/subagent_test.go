package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
)

// The session of a call that is canceled while it joins may have used tokens. To count them, the call keeps trying for
// the time that a cancel waits. It does not wait if the host shuts down.
func TestACanceledCallStillJoinsItsSession(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		cause error
		waits time.Duration
	}{
		"the call is canceled": {tool.ErrCancelled, 4 * time.Second},
		"the host goes away":   {errors.New("drained"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				helper, err := session.NewTool("helper", "Helps.", func(joining context.Context, _ tool.Call, _ string) (*session.Session, error) {
					cancel(row.cause)
					began := time.Now()
					<-joining.Done()
					if took := time.Since(began); took != row.waits || !errors.Is(context.Cause(joining), row.cause) {
						t.Errorf("opening could go on for %v, until %v; want %v, %v", took, context.Cause(joining), row.waits, row.cause)
					}
					return nil, context.Cause(joining)
				})
				if err != nil {
					t.Fatal(err)
				}
				_, _ = helper.Call(ctx, tool.Call{Name: "helper", Input: json.RawMessage(`{"prompt": "help"}`)})
			})
		})
	}
}
