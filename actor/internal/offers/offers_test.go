package offers

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/sparselog"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/tool"
)

// grouped returns the specs of what the workers of the queue "q" offer.
func grouped(t *testing.T, o *Offers, all ...jetstream.Offer) map[string]tool.Spec {
	t.Helper()
	out := make(map[string]tool.Spec)
	for _, source := range o.group(all).sources {
		tools, err := source.Tools(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range tools {
			out[source.Name()+"/"+one.Spec().Name] = one.Spec()
		}
	}
	return out
}

func TestTheStrictestEffectsOfAQueueCount(t *testing.T) {
	t.Parallel()
	o := &Offers{log: zaptest.NewLogger(t), sparse: &sparselog.Log{}}
	spec := func(e content.Effects, writes bool) []tool.Spec {
		return []tool.Spec{{Name: "sh", Effects: e, Writes: writes}}
	}
	got := grouped(
		t, o,
		jetstream.Offer{Worker: "0aaa", Queue: "q", Tools: spec(content.ReadOnly, false)}, // of another queue's worker
		jetstream.Offer{Worker: "w", Queue: "q", Tools: spec(content.Idempotent, true)},
		jetstream.Offer{Worker: "x", Queue: "r", Tools: spec(content.ReadOnly, false)},
	)
	if s := got["q/sh"]; s.Effects != content.Idempotent || !s.Writes {
		t.Errorf("in the queue of a stricter worker: %+v", s)
	}
	if s := got["r/sh"]; s.Effects != content.ReadOnly || s.Writes {
		t.Errorf("in another queue: %+v", s)
	}
}

func TestWhatAQueueOffersIsBounded(t *testing.T) {
	t.Parallel()
	o := &Offers{log: zaptest.NewLogger(t), sparse: &sparselog.Log{}}
	var many []tool.Spec
	for i := range maxOffered + 1 {
		many = append(many, tool.Spec{Name: fmt.Sprint("t", i)})
	}
	if got := grouped(t, o, jetstream.Offer{Worker: "w", Queue: "q", Tools: many}, jetstream.Offer{Worker: "x", Queue: "r", Tools: many[:1]}); len(got) != maxOffered+1 {
		t.Errorf("%d tools of a queue that offers too many, and one of another", len(got))
	}
	large := json.RawMessage(`{"description":"` + strings.Repeat("x", 200<<10) + `"}`)
	for i := range many {
		many[i].InputSchema = large
	}
	if got := grouped(t, o, jetstream.Offer{Worker: "w", Queue: "q", Tools: many}); len(got) != maxOfferedBytes/specSize(many[0]) {
		t.Errorf("%d tools with large schemas", len(got))
	}
	before := o.compiled
	grouped(t, o, jetstream.Offer{Worker: "w", Queue: "q", Tools: many})
	for key, t1 := range o.compiled {
		if before[key] != t1 {
			t.Error("a tool that did not change was compiled again")
		}
	}
}
