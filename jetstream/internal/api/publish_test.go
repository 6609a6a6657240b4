package api

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/internal/testing/natstest"
)

const (
	ackOf7        = `{"stream":"S","seq":7}`
	writeInFlight = `{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}`
	otherSequence = `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 6"}}`
)

func TestAGuardedWriteWaitsForTheWriteInFlight(t *testing.T) {
	for name, want := range map[string]struct {
		answers  []string // the last one repeats
		seq      uint64
		conflict bool
	}{
		"that was the writer's own":  {[]string{writeInFlight, writeInFlight, ackOf7}, 7, false},
		"that was another writer's":  {[]string{writeInFlight, otherSequence}, 0, true},
		"that does not end in time":  {[]string{writeInFlight}, 0, true},
		"but not for one that ended": {[]string{otherSequence, ackOf7}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *Conn) {
				var n int
				_, err := c.nc.Subscribe("s", func(m *nats.Msg) {
					natstest.Must(t, m.Respond([]byte(want.answers[min(n, len(want.answers)-1)])))
					n++
				})
				natstest.Must(t, err)
				seq, err := c.Publish(t.Context(), nats.NewMsg("s"))
				if seq != want.seq || IsConflict(err) != want.conflict || (err == nil) == want.conflict {
					t.Errorf("Publish = %d, %v after %d answers; want %d, conflict %v", seq, err, n, want.seq, want.conflict)
				}
			})
		})
	}
}

func TestAcknowledgmentsInEveryForm(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]uint64{
		ackOf7:                                7,
		`{"stream":"S","domain":"d","seq":7}`: 7,
		`{"stream":"S","seq":7,"duplicate":true}`: 7,
		`{ "stream" : "S", "seq" : 7 }`:           7,
		`{"stream":"","seq":7}`:                   0,
		`{"stream":"S","seq":0}`:                  0,
		`{"stream":"S","seq":-1}`:                 0,
		`{"stream":"S","seq":7`:                   0,
		`{"stream":"S","seq":1,"seq":7}`:          7,
		otherSequence:                             0,
		``:                                        0,
	} {
		seq, err := parseAck(&nats.Msg{Data: []byte(data)})
		if seq != want || (err == nil) != (want > 0) {
			t.Errorf("parseAck(%s) = %d, %v, want %d", data, seq, err, want)
		}
	}
}
