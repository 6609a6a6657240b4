package jetstream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// revived is a change of a key as a server tells of it that was killed: it forgot that
// the key was to expire.
type revived struct {
	jetstream.KeyValueEntry

	worker  string
	value   []byte
	created time.Time
}

func (r revived) Key() string                     { return offerKeys + r.worker }
func (r revived) Value() []byte                   { return r.value }
func (r revived) Created() time.Time              { return r.created }
func (r revived) Operation() jetstream.KeyValueOp { return jetstream.KeyValuePut }

func TestAKeyThatOutlivedItsTimeIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lives := stored{Time: time.Now(), Header: nats.Header{jetstream.MsgTTLHeader: []string{"10s"}}}
		ever := stored{Time: lives.Time}
		value, err := encodeValue(offer("w", "grep"))
		must(t, err)
		v := &CatalogView{changed: make(chan struct{}, 1)}
		v.apply(revived{worker: "w", value: value, created: lives.Time})
		if lives.gone() || ever.gone() || len(v.Snapshot()) != 1 {
			t.Error("what was written just now is gone")
		}
		<-time.After(2 * time.Minute)
		late := &CatalogView{changed: make(chan struct{}, 1)}
		late.apply(revived{worker: "w", value: value, created: lives.Time})
		if !lives.gone() || ever.gone() || len(late.Snapshot()) != 0 {
			t.Errorf("after two minutes a key of ten seconds is gone: %v, one that lives for ever: %v; %d offers", lives.gone(), ever.gone(), len(late.Snapshot()))
		}
	})
}
