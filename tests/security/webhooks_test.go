package security

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/client/webhooks"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	store "github.com/turnlog/turnlog/jetstream/webhooks"
)

// A sender of webhooks needs only the permissions of a messenger. Its endpoint has an address that it may not dial.
func TestAMessengerMaySendWebhooks(t *testing.T) {
	inEachLayout(t, func(t *testing.T, c *cell) {
		ctx, cancel := context.WithCancel(c.ctx)
		cell := c.open("messenger")
		key := make([]byte, 32)
		s := webhooks.New(cell, webhooks.Config{Endpoints: []webhooks.Endpoint{{
			Name: "e", URL: "https://127.0.0.1/", Secrets: func() ([][]byte, error) { return [][]byte{key}, nil },
		}}}, zap.NewNop())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		<-time.After(5 * time.Second)
		head := journal.Head{}
		for _, ev := range []events.Event{events.RunStarted{}, events.RunFailed{Message: large()}} { // the second one is a blob
			var err error
			e := events.Entry{Session: "s", Cause: "c", Epoch: 1, Events: []events.Event{ev}}
			if head, err = c.open("driver").Journal().Append(ctx, head, e); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Minute)
		states := store.Of(cell)
		state, _, err := states.Load(ctx, "e")
		if err != nil || len(state.Waiting) != 1 || !strings.HasSuffix(state.Waiting[0].Failure, "its address 127.0.0.1 is not public") {
			t.Fatalf("state = %+v, %v", state, err)
		}
		for _, err := range []error{
			states.Bury(ctx, "e", state.Waiting[0]), states.Retry(ctx, "e", state.Waiting[0].ID), states.Bury(ctx, "e", state.Waiting[0]),
			states.Drop(ctx, "e", state.Waiting[0].ID), states.Enable(ctx, "e", true),
		} {
			if err != nil {
				t.Error(err)
			}
		}
		names, err := states.Endpoints(ctx)
		dead, deadErr := states.Dead(ctx, "e")
		if err := errors.Join(err, deadErr); err != nil || len(names) != 1 || len(dead) != 0 {
			t.Errorf("endpoints %v, dead %v, %v", names, dead, err)
		}
		<-time.After(10 * time.Second) // it looks for what is to be sent again
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		c.clean()
	})
}
