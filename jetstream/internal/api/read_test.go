package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/internal/testing/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// inBubble runs a test in virtual time with a connection to a server of its own.
func inBubble(t *testing.T, test func(t *testing.T, c *Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, New(natstest.Connect(t, natstest.Start(t)))) })
}

// reply is one message that a fake server sends in answer to a batch request.
type reply struct {
	seq, before uint64
	status      string
	pending     uint64
}

// fakeBatches answers the requests for batches of a stream that does not exist,
// the n-th request with the n-th list, and records where each starts. It has no single messages.
func fakeBatches(t *testing.T, c *Conn, stream string, answers ...[]reply) (asked *[]uint64) {
	t.Helper()
	asked = new([]uint64)
	_, err := c.nc.Subscribe(DirectGet+stream, func(m *nats.Msg) {
		var query struct{ Seq, Batch uint64 }
		natstest.Must(t, json.Unmarshal(m.Data, &query))
		if query.Batch == 0 {
			natstest.Must(t, c.nc.PublishMsg(reply{status: "404"}.message(m.Reply)))
			return
		}
		n := len(*asked)
		*asked = append(*asked, query.Seq)
		for _, r := range answers[min(n, len(answers)-1)] {
			natstest.Must(t, c.nc.PublishMsg(r.message(m.Reply)))
		}
	})
	natstest.Must(t, err)
	return asked
}

func (r reply) message(to string) *nats.Msg {
	msg := nats.NewMsg(to)
	msg.Header.Set("Nats-Last-Sequence", strconv.FormatUint(r.before, 10))
	msg.Header.Set("Nats-Num-Pending", strconv.FormatUint(r.pending, 10))
	if r.status != "" {
		msg.Header.Set("Status", r.status)
		msg.Header.Set("Description", "refused by the test")
		return msg
	}
	msg.Header.Set(jetstream.SubjectHeader, "a")
	msg.Header.Set(jetstream.SequenceHeader, strconv.FormatUint(r.seq, 10))
	msg.Header.Set(jetstream.TimeStampHeaer, time.Now().Format(time.RFC3339Nano))
	msg.Data = fmt.Appendf(nil, "message %d", r.seq)
	return msg
}

func TestTornBatchesAreRequestedAgain(t *testing.T) {
	end := []reply{{status: "404"}}
	for _, tt := range []struct {
		name    string
		answers [][]reply
		asked   []uint64
		got     []uint64
	}{
		{"nothing there", [][]reply{end}, []uint64{1}, nil},
		{
			"two batches",
			[][]reply{{{seq: 3}, {seq: 5, before: 3}, {status: "204", before: 5, pending: 1}}, {{seq: 9}, {status: "204", before: 9}}},
			[]uint64{1, 6},
			[]uint64{3, 5, 9},
		},
		{
			"a message is lost",
			[][]reply{{{seq: 3}, {seq: 7, before: 5}}, {{seq: 5}, {seq: 7, before: 5}, {status: "204", before: 7}}},
			[]uint64{1, 4},
			[]uint64{3, 5, 7},
		},
		{
			"the last message is lost",
			[][]reply{{{seq: 3}, {status: "204", before: 5}}, {{seq: 5}, {status: "204", before: 5}}},
			[]uint64{1, 4},
			[]uint64{3, 5},
		},
		{
			"the first message is lost",
			[][]reply{{{seq: 5, before: 3}}, {{seq: 3}, {status: "204", before: 3}}},
			[]uint64{1, 1},
			[]uint64{3},
		},
		{"the end is lost", [][]reply{{{seq: 3}}, end}, []uint64{1, 4}, []uint64{3}},
		{"no answer at all", [][]reply{{}, {{seq: 3}, {status: "204", before: 3}}}, []uint64{1, 1}, []uint64{3}},
		{"no server serves it for a while", [][]reply{{{status: "503"}}, {{status: "503"}}, end}, []uint64{1, 1, 1}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *Conn) {
				asked := fakeBatches(t, c, "FAKE", tt.answers...)
				var got []uint64
				for m, err := range c.Batches(t.Context(), "FAKE", "a", 0) {
					natstest.Must(t, err)
					if want := fmt.Sprintf("message %d", m.Seq); string(m.Data) != want || m.Subject != "a" {
						t.Errorf("message %d is %q on %s", m.Seq, m.Data, m.Subject)
					}
					got = append(got, m.Seq)
				}
				if !slices.Equal(got, tt.got) || !slices.Equal(*asked, tt.asked) {
					t.Errorf("got %v and asked from %v, want %v and %v", got, *asked, tt.got, tt.asked)
				}
			})
		})
	}
}

func TestFailedBatchesAreErrors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer []reply
		want   error
	}{
		{"refused", []reply{{status: "408"}}, nil},
		{"no server serves the stream", []reply{{status: "503"}}, ErrNotProvisioned},
		{"never an end", []reply{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *Conn) {
				fakeBatches(t, c, "FAKE", tt.answer)
				start := time.Now()
				var last error
				for _, err := range c.Batches(t.Context(), "FAKE", "a", 0) {
					last = err
				}
				if last == nil || tt.want != nil && !errors.Is(last, tt.want) {
					t.Errorf("ends with %v, want %v or any error", last, tt.want)
				}
				if took := time.Since(start); took > 2*Patience {
					t.Errorf("took %v, want at most %v", took, 2*Patience)
				}
			})
		})
	}
}

// A replica may lag behind its leader.
func TestMostAsksTheLeaderOnlyIfTheReplicaHasNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Conn) {
		js, err := jetstream.New(c.nc)
		natstest.Must(t, err)
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"a"}, Storage: jetstream.MemoryStorage})
		natstest.Must(t, err)
		for range 4 {
			_, err := c.Publish(t.Context(), &nats.Msg{Subject: "a"})
			natstest.Must(t, err)
		}
		lagging := []reply{{seq: 1}, {seq: 2, before: 1}, {status: "204", before: 2}}
		fakeBatches(t, c, "S", lagging, []reply{{status: "404"}}, lagging)
		for _, tt := range []struct {
			read func(context.Context, string, string, uint64) iter.Seq2[Message, error]
			from uint64
			want []uint64
		}{
			{c.Most, 1, []uint64{1, 2}}, {c.Most, 3, []uint64{3, 4}}, {c.All, 1, []uint64{1, 2, 3, 4}},
		} {
			var got []uint64
			for m, err := range tt.read(t.Context(), "S", "a", tt.from) {
				natstest.Must(t, err)
				got = append(got, m.Seq)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("from %d: %v, want %v", tt.from, got, tt.want)
			}
		}
	})
}

func TestNextFindsTheFirstMessageFromASequence(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Conn) {
		js, err := jetstream.New(c.nc)
		natstest.Must(t, err)
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*", "t.*"}, Storage: jetstream.MemoryStorage})
		natstest.Must(t, err)
		for i, subject := range []string{"s.a", "s.b", "s.a", "s.c", "s.a"} {
			_, err := c.Publish(t.Context(), &nats.Msg{
				Subject: subject, Header: nats.Header{"N": {strconv.Itoa(i + 1)}}, Data: []byte{0, byte(i + 1), 0xff},
			})
			natstest.Must(t, err)
		}
		for _, tt := range []struct {
			subject string
			from    uint64
			want    uint64 // 0: none
		}{
			{"s.a", 0, 1}, {"s.a", 2, 3}, {"s.a", 6, 0}, {"s.b", 1, 2}, {"s.b", 3, 0}, {"s.*", 4, 4}, {">", 5, 5}, {"t.*", 0, 0},
		} {
			m, err := c.Next(t.Context(), "S", tt.subject, tt.from)
			if tt.want == 0 && !errors.Is(err, ErrNoMessage) || tt.want != 0 && err != nil {
				t.Errorf("%s from %d: %v", tt.subject, tt.from, err)
				continue
			}
			if m.Seq != tt.want {
				t.Errorf("%s from %d: message %d, want %d", tt.subject, tt.from, m.Seq, tt.want)
			}
			if tt.want != 0 && (m.Header.Get("N") != strconv.FormatUint(tt.want, 10) || m.Data[1] != byte(tt.want) || m.Time.IsZero()) {
				t.Errorf("message %d = %+v", tt.want, m)
			}
		}
		last, err := c.Last(t.Context(), "S", "s.*")
		if err != nil || last.Seq != 5 || last.Subject != "s.a" {
			t.Errorf("last = %+v, %v, want message 5", last, err)
		}
		if _, err := c.Last(t.Context(), "S", "t.*"); !errors.Is(err, ErrNoMessage) {
			t.Errorf("last of none = %v, want ErrNoMessage", err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("canceled by the test")
		cancel(cause)
		if _, err := c.Last(ctx, "S", "s.a"); !errors.Is(err, cause) {
			t.Errorf("Last in a canceled context = %v, want the cause", err)
		}
	})
}
