package jetstream

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// heard collects a subscription's events until its context ends.
func heard(ctx context.Context, t *testing.T, c *Cell, s content.SessionID) (stop func() []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	seq, err := c.Live().Subscribe(ctx, s)
	must(t, err)
	var got []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for id, ev := range seq {
			got = append(got, string(id)+" "+ev.(events.ToolProgress).Text)
		}
	}()
	return func() []string {
		synctest.Wait()
		cancel()
		<-done
		return got
	}
}

func TestLiveEventsReachSubscribers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := openCell(t, connect(t, s))
		other := openCell(t, connect(t, s))
		publish := func(id content.SessionID, text string) {
			t.Helper()
			must(t, c.Live().Publish(id, events.ToolProgress{Call: "c1", Text: text, Share: 0.5}))
		}
		publish("s1", "before the subscription")
		synctest.Wait()
		one, all := heard(t.Context(), t, other, "s1"), heard(t.Context(), t, other, AllSessions)
		synctest.Wait()
		publish("s1", "a")
		publish("s2", "b")
		must(t, c.nc.Publish(c.names.Delta("s1"), []byte("no event")))
		publish("s1", "c")
		if diff := cmp.Diff([]string{"s1 a", "s1 c"}, one()); diff != "" {
			t.Errorf("events of s1 (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"s1 a", "s2 b", "s1 c"}, all()); diff != "" {
			t.Errorf("all events (-want +got):\n%s", diff)
		}
		synctest.Wait()
		if n := other.nc.NumSubscriptions(); n != 0 {
			t.Errorf("%d subscriptions are left", n)
		}
	})
}

func TestLiveReaderMayStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := openCell(t, connect(t, startServer(t)))
		seq, err := c.Live().Subscribe(t.Context(), "s1")
		must(t, err)
		for range 3 {
			must(t, c.Live().Publish("s1", events.Refused{Command: "a1", Reason: "busy"}))
		}
		n := 0
		for _, ev := range seq {
			if diff := cmp.Diff(events.Event(events.Refused{Command: "a1", Reason: "busy"}), ev); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
			if n++; n == 2 {
				break
			}
		}
	})
}
