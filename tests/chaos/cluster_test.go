package chaos

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/turnlog/turnlog/internal/testing/cell"
	"github.com/turnlog/turnlog/internal/testing/faultproxy"
	"github.com/turnlog/turnlog/internal/testing/torture"
)

const patience = 2 * time.Minute

// TestHistoriesAreLinearizable has clients append, claim and approve concurrently on one
// cluster under faults, and checks the history of each.
func TestHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	appends, claims := newHistory(t, 4, done, refused, unknown), newHistory(t, 4, done, refused)
	approvals := newHistory(t, askers, done, refused)
	var clients []func(context.Context, *cell.Process)
	for i := range 8 {
		clients = append(clients,
			func(ctx context.Context, p *cell.Process) { appends.appendUntil(ctx, i, p) },
			func(ctx context.Context, p *cell.Process) { claims.claimUntil(ctx, i, p) })
	}
	r := survives(t.Context(), t, torture.Config{
		Seed: 1, Duration: 7 * time.Second, Gap: 250 * time.Millisecond, Sessions: 4, Nodes: 2, Workers: 1,
		Kinds:   []torture.Kind{torture.LeaderStepdown, torture.ServerStopped, torture.AcksSwallowed},
		Clients: slices.Concat(clients, approvals.approvers()),
		OnCalm:  func() { appends.keeps(t) },
	})
	if len(r.Faults) < 3 {
		t.Errorf("faults = %v, so this run proves little", r.Faults)
	}
	appends.linearizable(t, stepAppend, end{})
	claims.linearizable(t, stepClaim, owner{})
	approvals.linearizable(t, stepApprove, verdict{})
}

// deafen delays the answers to a client for a moment.
func deafen(p *cell.Process) {
	p.Proxy.Swallow(faultproxy.ToClient, true)
	time.AfterFunc(200*time.Millisecond, func() { p.Proxy.Swallow(faultproxy.ToClient, false) })
}
