package commands

import (
	"errors"
	"testing"
	"time"

	"github.com/turnlog/turnlog/events"
)

func TestRetriesNeedAPauseAndAnEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		retry events.Retry
		ok    bool
	}{
		"the defaults":        {ok: true},
		"the bounds":          {events.Retry{ModelAttempts: 1000, Backoff: 10 * time.Millisecond, MaxBackoff: 10 * time.Millisecond, ModelPatience: 7 * 24 * time.Hour}, true},
		"no pause":            {events.Retry{Backoff: 1}, false},
		"no pause at most":    {events.Retry{MaxBackoff: 1}, false},
		"a negative pause":    {events.Retry{Backoff: -time.Second}, false},
		"no end":              {events.Retry{ModelAttempts: 1 << 40}, false},
		"negative attempts":   {events.Retry{LostAttempts: -1}, false},
		"too patient":         {events.Retry{ModelPatience: 30 * 24 * time.Hour}, false},
		"a negative patience": {events.Retry{ModelPatience: -1}, false},
	} {
		err := Validate(OpenSession{Config: events.Config{Retry: c.retry}})
		if r, refused := errors.AsType[*Rejection](err); refused == c.ok || refused && r.Reason != ReasonInvalidInput {
			t.Errorf("%s: %v", name, err)
		}
	}
}
