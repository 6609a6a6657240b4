package api

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// interleaved creates a stream with messages on the subject "s", which are guarded, and others between two
// of them. It returns their sequences.
func interleaved(t testing.TB, c *Conn, messages, others int) (seqs []uint64) {
	t.Helper()
	js, err := jetstream.New(c.nc)
	natstest.Must(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "S", Subjects: []string{"s", "other.*"}, Storage: jetstream.MemoryStorage, AllowDirect: true,
	})
	natstest.Must(t, err)
	seqs = []uint64{0}
	for range messages {
		for i := range others {
			natstest.Must(t, c.nc.Publish(fmt.Sprint("other.", i), nil))
		}
		last := seqs[len(seqs)-1]
		h := nats.Header{layout.HeaderGuard: {strconv.FormatUint(last, 10)}}
		seq, err := c.Publish(t.Context(), &nats.Msg{Subject: "s", Header: h, Data: fmt.Appendf(nil, "after %d", last)})
		natstest.Must(t, err)
		seqs = append(seqs, seq)
	}
	return seqs[1:]
}

// most reads with Most, and returns the sequences and the number of requests.
func most(t testing.TB, c *Conn, from uint64) (seqs []uint64, requests uint64) {
	t.Helper()
	before := c.nc.Stats().OutMsgs
	for m, err := range c.Most(t.Context(), "S", "s", from) {
		natstest.Must(t, err)
		seqs = append(seqs, m.Seq)
		if last := HeaderUint(m.Header, layout.HeaderGuard); string(m.Data) != fmt.Sprintf("after %d", last) {
			t.Errorf("message %d is %q", m.Seq, m.Data)
		}
	}
	return seqs, c.nc.Stats().OutMsgs - before
}

// The server would examine all messages in between.
func TestMessagesFarApartAreReadByTheirSequences(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Conn) {
		all := interleaved(t, c, 4, farApart)
		for _, tt := range []struct {
			from uint64
			want []uint64
		}{{0, all}, {all[0], all}, {all[0] + 1, all[1:]}, {all[2], all[2:]}, {all[3], all[3:]}} {
			if got, requests := most(t, c, tt.from); !slices.Equal(got, tt.want) || requests != uint64(len(tt.want)) {
				t.Errorf("from %d: %v with %d requests, want %v with as many", tt.from, got, requests, tt.want)
			}
		}
		if got, _ := most(t, c, all[3]+1); len(got) != 0 {
			t.Errorf("after the last one: %v", got)
		}
		for _, err := range c.Most(t.Context(), "S", "s", 0) {
			natstest.Must(t, err)
			break // the rest is not yielded
		}
	})
}

func TestMessagesCloseTogetherAreReadInABatch(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Conn) {
		all := interleaved(t, c, 20, 5)
		if got, requests := most(t, c, 0); !slices.Equal(got, all) || requests != 2 {
			t.Errorf("%v with %d requests, want %v with 2", got, requests, all)
		}
	})
}

// A tombstone's guard names an entry that was erased.
func TestAGuardOfAMissingMessageEndsTheWayBack(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Conn) {
		all := interleaved(t, c, 4, farApart)
		natstest.Must(t, c.Delete(t.Context(), "S", all[1]))
		if got, _ := most(t, c, 0); !slices.Equal(got, []uint64{all[0], all[2], all[3]}) {
			t.Errorf("%v of %v", got, all)
		}
	})
}

// BenchmarkMost reads ten messages that are far apart, as a node does that takes over a session of a large
// deployment, and compares the ways.
func BenchmarkMost(b *testing.B) {
	for _, others := range []int{farApart, 20_000} {
		c := New(natstest.Connect(b, natstest.Start(b)))
		interleaved(b, c, 10, others)
		b.Run(fmt.Sprintf("others=%d/guards", others), func(b *testing.B) {
			for b.Loop() {
				most(b, c, 0)
			}
		})
		b.Run(fmt.Sprintf("others=%d/batch", others), func(b *testing.B) {
			for b.Loop() {
				for _, err := range c.Batches(b.Context(), "S", "s", 0) {
					natstest.Must(b, err)
				}
			}
		})
	}
}
