package jetstream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// revived is a change of an expired key that a killed server reports after its restart.
type revived struct {
	jetstream.KeyValueEntry

	worker  string
	value   []byte
	created time.Time
}

func (r revived) Key() string                     { return layout.OfferKeys + r.worker }
func (r revived) Value() []byte                   { return r.value }
func (r revived) Created() time.Time              { return r.created }
func (r revived) Operation() jetstream.KeyValueOp { return jetstream.KeyValuePut }

func TestExpiredKeysAreGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		short := api.Message{Time: time.Now(), Header: nats.Header{jetstream.MsgTTLHeader: []string{"10s"}}}
		permanent := api.Message{Time: short.Time}
		o := offer("w", "grep")
		value, err := encodeValue(&o)
		must(t, err)
		v := &CatalogView{changed: make(chan struct{}, 1), offers: make(map[string]entry)}
		v.apply(revived{worker: "w", value: value, created: short.Time})
		if short.Gone() || permanent.Gone() || len(v.Snapshot()) != 1 {
			t.Error("a key that was just written is gone")
		}
		<-time.After(2 * time.Minute)
		late := &CatalogView{changed: make(chan struct{}, 1), offers: make(map[string]entry)}
		late.apply(revived{worker: "w", value: value, created: short.Time})
		if !short.Gone() || permanent.Gone() || len(late.Snapshot()) != 0 {
			t.Errorf("after two minutes a key of ten seconds is gone: %v, a permanent one: %v; %d offers", short.Gone(), permanent.Gone(), len(late.Snapshot()))
		}
	})
}
