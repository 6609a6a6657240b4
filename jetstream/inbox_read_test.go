package jetstream

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// TestAReadSkipsNothingThatIsSentMeanwhile reads two sessions' commands while they are
// sent, in rows and in turns: a command that was passed over would never be handled.
func TestAReadSkipsNothingThatIsSentMeanwhile(t *testing.T) {
	t.Parallel()
	const each = 1500
	s := startServer(t)
	c := provision(t, connect(t, s))
	sessions := []content.SessionID{"s1", "s2"}
	nc := connect(t, s)
	var sending sync.WaitGroup
	sending.Go(func() {
		sent := make([]int, len(sessions))
		r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test's
		for sent[0] < each || sent[1] < each {
			i := r.IntN(len(sessions))
			for range 1 + r.IntN(40) {
				if sent[i] == each {
					break
				}
				raw, err := submit(sessions[i], strconv.Itoa(sent[i]), "").Encode()
				if err == nil {
					err = nc.Publish(c.names.cmd(sessions[i], events.LaneAsk), raw)
				}
				if err != nil {
					t.Error(err)
					return
				}
				sent[i]++
			}
		}
	})
	var reading sync.WaitGroup
	for _, id := range sessions {
		reading.Go(func() {
			ctx := within(t, patience*10)
			for got, at := 0, uint64(0); got < each; {
				found, err := c.Inbox().Read(ctx, id, []events.Cursor{{Lane: events.LaneAsk, Seq: at}})
				if err != nil {
					t.Errorf("Read behind %d commands = %v", got, err)
					return
				}
				for _, m := range found {
					if m.Envelope.ID != strconv.Itoa(got) || m.Last != at {
						t.Errorf("%s behind %d: command %q, behind %d, want number %d", id, at, m.Envelope.ID, m.Last, got)
						return
					}
					got, at = got+1, m.Seq
				}
			}
		})
	}
	sending.Wait()
	reading.Wait()
}

// TestARowLeavesNothingOut has the answers to one row come at different times: what one
// finds says nothing of what another came too early for.
func TestARowLeavesNothingOut(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		answers []uint64 // to questions from 10 on; 0: nothing
		want    []uint64
	}{
		"one behind the other":        {[]uint64{10, 11, 12}, []uint64{10, 11, 12}},
		"others' between":             {[]uint64{11, 11, 14, 14}, []uint64{11, 14}},
		"far away":                    {[]uint64{90, 90, 90}, []uint64{90}},
		"nothing":                     {[]uint64{0, 0}, nil},
		"the end":                     {[]uint64{10, 11, 0, 0}, []uint64{10, 11}},
		"stored behind the first one": {[]uint64{0, 0, 15, 15}, nil},
		"stored in the middle":        {[]uint64{10, 0, 12}, []uint64{10}},
	} {
		var row []*question
		for n, seq := range x.answers {
			row = append(row, &question{from: 10 + uint64(n), answer: stored{Seq: seq}, none: seq == 0})
		}
		var got []uint64
		for _, m := range inRow(row) {
			got = append(got, m.Seq)
		}
		if !slices.Equal(got, x.want) {
			t.Errorf("%s: %v of the answers %v, want %v", name, got, x.answers, x.want)
		}
	}
}
