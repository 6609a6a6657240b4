package top

import (
	"bytes"
	"errors"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// record returns the record of an entry at a position.
func record(position uint64, s content.SessionID, evs ...events.Event) journal.Record {
	r := journal.Record{Entry: events.Entry{Session: s, Events: evs}}
	r.Guard = position
	return r
}

func TestTheCounterCountsWhatTheJournalSays(t *testing.T) {
	t.Parallel()
	c := newCounter(jetstream.Cursor{Position: 10})
	spent := content.Usage{InputTokens: 100, OutputTokens: 10, CostMicros: 1_500_000, Currency: "USD"}
	for _, r := range []journal.Record{
		record(11, "a", events.DriverClaimed{Epoch: 2}), // how its last driver ended is not known
		record(12, "a", events.UsageUpdated{Usage: spent, Source: "model"}),
		record(13, "a", events.UsageUpdated{Usage: spent, Source: "child"}), // its own session has it, too
		record(14, "a", events.DriverClaimed{Epoch: 3}),
		record(15, "a", events.TurnFinished{FinishReason: content.Completed}),
		record(16, "a", events.Parked{}),
		record(17, "a", events.DriverClaimed{Epoch: 4}),
		record(18, "b", events.TurnFinished{FinishReason: content.Errored}),
		{Err: errors.New("damaged"), Head: journal.Head{Guard: 19}},
	} {
		c.add(r)
	}
	v := c.view(admin.Backlog{Position: 21})
	want := doneCounts{
		Since: v.Done.Since, Entries: 9, Takeovers: 1, Usage: spent, Turns: map[content.FinishReason]int64{content.Completed: 1, content.Errored: 1},
	}
	if diff := cmp.Diff(want, v.Done); diff != "" || v.Lag != 2 {
		t.Errorf("lag %d, counts (-want +got):\n%s", v.Lag, diff)
	}
}

// shown is a view with something of everything.
func shown() view {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return view{
		Backlog: admin.Backlog{
			At: at, Nodes: 2, Appends: jetstream.Appends{Count: 1234, Mean: 2_345 * time.Microsecond, Slowest: 87 * time.Millisecond}, Sessions: admin.SessionCounts{Driven: 3, Waiting: 1, Parked: 40},
			Queues:    []admin.QueueBacklog{{Queue: "gpu", Waiting: 12, Running: 4, Oldest: 185 * time.Second, Workers: 1, Wanted: 4}, {Queue: "office", Workers: 2}},
			Approvals: admin.Listed{Sessions: 2, Oldest: time.Hour},
		},
		Done: doneCounts{
			Since: at.Add(-5 * time.Minute), Entries: 1200, Takeovers: 1, Turns: map[content.FinishReason]int64{content.Completed: 9, content.Errored: 1},
			Usage: content.Usage{InputTokens: 30_000, OutputTokens: 2000, CostMicros: 123_456, Currency: "USD"},
		},
		Lag: 7,
	}
}

func TestTheScreenIsDrawnOverItself(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := &screen{out: &out}
	for range 2 {
		if err := s.draw(shown()); err != nil {
			t.Fatal(err)
		}
	}
	first, second, _ := strings.Cut(out.String(), "\x1b[9F\x1b[J")
	const want = `Sessions: 3 driven, 1 waiting for a node, 0 set aside, 40 parked. 2 nodes.
Waiting for a person: 2 sessions, since 1h0m0s. Dead letters: none.
Entries recorded: 1,234 in the last seconds, in 2.3ms on average and 87ms at most.

QUEUE   WAITING  RUNNING  OLDEST  WORKERS  WANTED
gpu     12       4        3m5s    1        4
office  0        0        -       2        0

In 5m0s: 1,200 entries, 10 turns (1 failed), 30,000 tokens in, 2,000 out, 0.123456 USD, 1 taken over; 7 entries behind.
`
	if diff := cmp.Diff(want, first); diff != "" || second != first {
		t.Errorf("screen (-want +got):\n%s\nthen %q", diff, second)
	}
}

func TestMetricsFollowTheView(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	m := newMetrics(r, newCounter(jetstream.Cursor{}))
	if m.ready() == nil {
		t.Error("ready before the first look")
	}
	m.set(shown(), nil)
	v := shown()
	v.Queues = v.Queues[:1]
	m.set(v, nil)
	if err := m.ready(); err != nil {
		t.Error(err)
	}
	m.set(view{}, errors.New("the server is away"))
	server := httptest.NewServer(promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	defer server.Close()
	_, text := clitest.Get(t, server.URL)
	var got []string
	for line := range strings.Lines(text) {
		if m := regexp.MustCompile(`^turnlog_(queue_oldest|sessions|top_failures|undecided_oldest|queue_wanted).*`).FindString(line); m != "" {
			got = append(got, m)
		}
	}
	if diff := cmp.Diff([]string{
		`turnlog_queue_oldest_wait_seconds{queue="gpu"} 185`, `turnlog_queue_wanted_workers{queue="gpu"} 4`,
		`turnlog_sessions{state="aside"} 0`, `turnlog_sessions{state="driven"} 3`, `turnlog_sessions{state="parked"} 40`, `turnlog_sessions{state="waiting"} 1`,
		"turnlog_top_failures_total 1", `turnlog_undecided_oldest_seconds{about="approval"} 3600`, `turnlog_undecided_oldest_seconds{about="dead_letter"} 0`,
	}, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if m.ready() == nil {
		t.Error("ready after a failure")
	}
}
