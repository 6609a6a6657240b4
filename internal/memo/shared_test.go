package memo

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestSharedAsksOnceForAllUntilTheAnswerIsOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, asked := NewShared[int](), 0
		ask := func(context.Context) (int, error) {
			<-time.After(time.Second)
			asked++
			return asked, nil
		}
		get := func(want int) {
			if got, err := s.Get(t.Context(), 10*time.Second, ask); got != want || err != nil {
				t.Errorf("got %d, %v; want %d", got, err, want)
			}
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { get(1) })
		}
		all.Wait()
		<-time.After(9 * time.Second)
		get(1)
		<-time.After(time.Second)
		get(2)
	})
}

func TestTheEndOfOneCallerIsNoAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, why := NewShared[int](), errors.New("left")
		ctx, leave := context.WithCancelCause(t.Context())
		ended := make(chan error)
		slow := func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}
		go func() {
			_, err := s.Get(ctx, time.Hour, slow)
			ended <- err
		}()
		synctest.Wait()
		waits, stop := context.WithCancelCause(t.Context())
		go func() {
			_, err := s.Get(waits, time.Hour, slow)
			ended <- err
		}()
		synctest.Wait()
		stop(why) // it did not even ask
		if err := <-ended; !errors.Is(err, why) {
			t.Errorf("a caller that waited got %v", err)
		}
		leave(why)
		if err := <-ended; !errors.Is(err, why) {
			t.Errorf("the caller that asked got %v", err)
		}
		if got, err := s.Get(t.Context(), time.Hour, func(context.Context) (int, error) { return 7, nil }); got != 7 || err != nil {
			t.Errorf("the next caller got %d, %v", got, err)
		}
	})
}
