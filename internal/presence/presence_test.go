package presence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAWatchFollowsAServiceThatComesAndGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said []string
		answer, asked := errors.New("refused"), 0
		w := New(Config{Every: 4 * time.Second, First: time.Second, Most: 30 * time.Second}, func(_ context.Context, last int) (int, error) {
			asked++
			return last + 1, answer
		}, func(n int, err error) { said = append(said, fmt.Sprint(n, " ", err)) })
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			w.Run(ctx)
			close(done)
		}()
		if err := w.Settled(ctx); err == nil || err.Error() != "refused" {
			t.Errorf("settled with %v", err)
		}
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if asked < 20 || asked > 45 {
			t.Errorf("asked %d times in ten minutes of failures, want once every 15 to 30 s", asked)
		}
		answer = nil
		w.Hurry()
		synctest.Wait()
		if n, err := w.Offer(); n != 1 || err != nil {
			t.Errorf("offer = %d, %v", n, err)
		}
		<-time.After(8 * time.Second)
		synctest.Wait()
		if n, err := w.Offer(); n < 3 || n > 5 || err != nil {
			t.Errorf("offer = %d, %v after two more answers", n, err)
		}
		answer = errors.New("gone")
		w.Hurry()
		synctest.Wait()
		if n, err := w.Offer(); n != 0 || err == nil {
			t.Errorf("offer = %d, %v", n, err)
		}
		stop()
		<-done
		if diff := cmp.Diff([]string{"1 refused", "1 <nil>", "1 gone"}, clip(said)); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
		if _, err := w.Offer(); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// clip drops the numbers of what was offered, which depend on chance.
func clip(said []string) []string {
	for i, s := range said {
		_, rest, _ := strings.Cut(s, " ")
		said[i] = "1 " + rest
	}
	return said
}

func TestSettledEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := New(Config{}, func(context.Context, int) (int, error) { return 0, nil }, func(int, error) {})
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := w.Settled(ctx); !errors.Is(err, why) {
		t.Errorf("err = %v", err)
	}
}
