package turnlogtest_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
)

// TestFaultsDelayATurnAndDoNotChangeIt causes each fault while a call runs: in virtual time, unless a process connects again.
func TestFaultsDelayATurnAndDoNotChangeIt(t *testing.T) {
	t.Parallel()
	embedded.PrepareForSynctest()
	for _, f := range turnlogtest.Faults() {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			if strings.HasSuffix(string(f), "_killed") || strings.HasSuffix(string(f), "_frozen") {
				synctest.Test(t, func(t *testing.T) {
					delayed(t, f, func(d *turnlogtest.Deployment) { d.Advance(20 * time.Second) })
				})
				return
			}
			delayed(t, f, func(*turnlogtest.Deployment) {})
		})
	}
}

func delayed(t *testing.T, f turnlogtest.Fault, lasts func(*turnlogtest.Deployment)) {
	t.Helper()
	running, release := make(chan struct{}, 4), make(chan struct{})
	slow, err := tool.Func("weather", "The weather in a city.", func(ctx context.Context, _ place) (string, error) {
		running <- struct{}{}
		select {
		case <-release:
			return "sunny", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}, tool.ReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	d := turnlogtest.New(t, turnlogtest.Tools(slow), turnlogtest.Faulty())
	s := d.Script(forecast)
	turn, err := s.Submit(t.Context(), session.Input{Items: []content.Item{content.UserText("How is the weather in Oslo?")}})
	if err != nil {
		t.Fatal(err)
	}
	<-running
	end := d.Inject(f)
	lasts(d)
	close(release)
	end()
	if r, err := turn.Wait(t.Context()); err != nil || r.Response != "It is sunny." {
		t.Errorf("the turn ends with %v, %v", r, err)
	}
	s.ExpectCalls(`weather {"city":"Oslo"} → ok: sunny`)
}

// witness notes what would end a test.
type witness struct {
	testing.TB

	said string
}

func (w *witness) Helper() {}

func (w *witness) Fatalf(format string, args ...any) {
	w.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestAFaultThatCannotBeInjectedEndsTheTest(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		fault turnlogtest.Fault
		opts  []turnlogtest.Option
		want  string
	}{
		{"node_bored", []turnlogtest.Option{turnlogtest.Faulty()}, `no fault is called "node_bored": use one of [node_killed `},
		{turnlogtest.NodeCut, nil, "node_cut: New started no node, or without the option Faulty"},
		{turnlogtest.WorkerCut, []turnlogtest.Option{turnlogtest.Faulty()}, "worker_cut: New started no worker"},
	} {
		d, w := turnlogtest.New(t, tc.opts...), &witness{TB: t}
		d.T = w
		var injects sync.WaitGroup
		injects.Go(func() { d.Inject(tc.fault) })
		injects.Wait()
		if !strings.HasPrefix(w.said, tc.want) {
			t.Errorf("%s: %q, want %q", tc.fault, w.said, tc.want)
		}
	}
}
