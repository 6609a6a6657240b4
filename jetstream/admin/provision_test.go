package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/jetstream/internal/api"
)

func TestProvisionCreatesTheTopology(t *testing.T) {
	inBareBubble(t, func(t *testing.T, c *Cell) {
		cfg := Config{Memory: true, Queues: []QueueConfig{{Name: "fs"}, {Name: "shell", Concurrency: 3, AckWait: time.Minute}}}
		for range 3 {
			must(t, c.Provision(t.Context(), cfg))
			must(t, c.Check(t.Context()))
		}
		var streams []string
		for info := range jsOf(t, c).ListStreams(t.Context()).Info() {
			streams = append(streams, info.Config.Name)
		}
		slices.Sort(streams)
		var want []string
		for _, row := range Topology(c.names.NS, cfg) {
			want = append(want, row.Stream)
			checkStream(t, c, row)
		}
		slices.Sort(want)
		if !slices.Equal(streams, want) {
			t.Errorf("streams = %v, want %v", streams, want)
		}
	})
}

// checkStream compares a stream and its consumers with the server's descriptions.
func checkStream(t *testing.T, c *Cell, row Row) {
	t.Helper()
	stream, err := jsOf(t, c).Stream(t.Context(), row.Stream)
	must(t, err)
	if d := row.object().differences(stream.CachedInfo().Config); len(d) > 0 {
		t.Errorf("as created: %+v", d)
	}
	var have, want []string
	for info := range stream.ListConsumers(t.Context()).Info() {
		have = append(have, info.Name)
	}
	for _, o := range row.consumers {
		want = append(want, strings.TrimPrefix(o.name, row.Stream+" > "))
	}
	slices.Sort(have)
	if slices.Sort(want); !slices.Equal(have, want) {
		t.Errorf("%s has the consumers %v, want %v", row.Stream, have, want)
	}
}

func TestConcurrentProvisionsSucceed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		var wg sync.WaitGroup
		for range 8 {
			c := openCell(t, connect(t, s))
			wg.Go(func() {
				if err := c.Provision(t.Context(), Config{Memory: true, Queues: []QueueConfig{{Name: "q"}}}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

func TestProvisionListsDifferencesAndChangesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		inbox := c.names.InboxStream()
		stream, err := jsOf(t, c).Stream(t.Context(), inbox)
		must(t, err)
		altered := stream.CachedInfo().Config
		altered.AllowDirect, altered.MaxAge, altered.AllowMsgTTL = true, time.Hour, true
		_, err = jsOf(t, c).UpdateStream(t.Context(), altered)
		must(t, err)
		drivers := c.names.Drivers()
		drivers.AckWait = 3 * time.Second
		_, err = jsOf(t, c).UpdateConsumer(t.Context(), c.names.RunStream(), drivers)
		must(t, err)

		err = c.Provision(t.Context(), Config{Memory: true})
		m, ok := errors.AsType[*MismatchError](err)
		if !ok {
			t.Fatalf("Provision = %v, want a *MismatchError", err)
		}
		want := []Difference{
			{inbox, "max_age", "1h0m0s", "0s"},
			{inbox, "allow_direct", "true", "false"},
			{inbox, "allow_msg_ttl", "true", "false"},
			{c.names.drivers().name, "ack_wait", "3s", "12s"},
		}
		if !slices.Equal(m.Differences, want) {
			t.Errorf("differences = %+v, want %+v", m.Differences, want)
		}
		if text := err.Error(); !strings.Contains(text, "\n"+inbox+": max_age is 1h0m0s, must be 0s\n") {
			t.Errorf("error = %s", text)
		}
		must(t, c.Check(t.Context())) // goes by names only

		must(t, jsOf(t, c).DeleteStream(t.Context(), inbox))
		err = c.Provision(t.Context(), Config{Memory: true})
		m, ok = errors.AsType[*MismatchError](err)
		if !ok || !slices.Equal(m.Differences, []Difference{{c.names.drivers().name, "ack_wait", "3s", "12s"}}) {
			t.Errorf("Provision = %v, want that the consumer's ack_wait differs", err)
		}
		if _, err := jsOf(t, c).Stream(t.Context(), inbox); !api.IsNoStream(err) {
			t.Errorf("a missing stream was created despite a difference: %v", err)
		}
	})
}

func TestProvisionNamesAnOverlappingStream(t *testing.T) {
	inBareBubble(t, func(t *testing.T, c *Cell) {
		_, err := jsOf(t, c).CreateStream(t.Context(), jetstream.StreamConfig{
			Name: "THEIRS", Subjects: []string{"other", c.names.NS + ".cmd.>"}, Storage: jetstream.MemoryStorage,
		})
		must(t, err)
		err = c.Provision(t.Context(), Config{Memory: true})
		o, ok := errors.AsType[*OverlapError](err)
		if want := (OverlapError{c.names.InboxStream(), c.names.Cmds("*"), "THEIRS"}); !ok || *o != want {
			t.Errorf("Provision = %v, want %v", err, &want)
		}
		if names := slices.Collect(maps.Keys(streamsOf(t, c))); !slices.Equal(names, []string{"THEIRS"}) {
			t.Errorf("streams = %v, want only theirs", names)
		}
	})
}

func streamsOf(t *testing.T, c *Cell) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	list := jsOf(t, c).StreamNames(t.Context())
	for name := range list.Name() {
		names[name] = true
	}
	must(t, list.Err())
	return names
}

func TestProvisionKeepsTheOperatorsSettings(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		stream, err := jsOf(t, c).Stream(t.Context(), c.names.JournalStream())
		must(t, err)
		cfg := stream.CachedInfo().Config
		cfg.Description, cfg.Metadata = "ours", map[string]string{"team": "a"}
		_, err = jsOf(t, c).UpdateStream(t.Context(), cfg)
		must(t, err)
		must(t, c.Provision(t.Context(), Config{Memory: true}))
		stream, err = jsOf(t, c).Stream(t.Context(), c.names.JournalStream())
		must(t, err)
		if got := stream.CachedInfo().Config.Description; got != "ours" {
			t.Errorf("description = %q, want the operator's", got)
		}
	})
}

// Caps that an operator sets are accepted as long as a full stream refuses what is new.
func TestCapsOfAnOperatorAreAcceptedIfTheyLoseNothing(t *testing.T) {
	type config = jetstream.StreamConfig
	for name, of := range map[string]struct {
		stream string
		change func(*config)
		want   string
	}{
		"messages": {"INBOX", func(c *config) { c.Discard, c.MaxMsgs, c.MaxBytes = jetstream.DiscardNew, 10, 1<<20 }, ""},
		"each lane": {"INBOX", func(c *config) {
			c.Discard, c.DiscardNewPerSubject, c.MaxMsgsPerSubject = jetstream.DiscardNew, true, 1000
		}, ""},
		"no caps":                  {"INBOX", func(c *config) { c.Discard = jetstream.DiscardNew }, ""},
		"tasks":                    {"TASKS", func(c *config) { c.MaxMsgs, c.MaxBytes = 10, 1<<20 }, ""},
		"old commands are lost":    {"INBOX", func(c *config) { c.MaxBytes = 1 << 20 }, "discard is old, must be new: nats stream edit TURNLOG_INBOX --discard new --force"},
		"of a lane, they are, too": {"INBOX", func(c *config) { c.Discard, c.MaxMsgsPerSubject = jetstream.DiscardNew, 1000 }, "discard_new_per_subject is false, must be true: nats stream edit TURNLOG_INBOX --discard-per-subject --force"},
		"too small": {"INBOX", func(c *config) {
			c.Discard, c.DiscardNewPerSubject, c.MaxMsgsPerSubject = jetstream.DiscardNew, true, 10
		}, "max_msgs_per_subject is 10, must be 1000: nats stream edit TURNLOG_INBOX --max-msgs-per-subject 1000 --force"},
		"ages": {"INBOX", func(c *config) { c.MaxAge = time.Hour }, "max_age is 1h0m0s, must be 0s: "},
	} {
		inBubble(t, func(t *testing.T, c *Cell) {
			stream, err := jsOf(t, c).Stream(t.Context(), c.names.stream(of.stream))
			must(t, err)
			cfg := stream.CachedInfo().Config
			of.change(&cfg)
			_, err = jsOf(t, c).UpdateStream(t.Context(), cfg)
			must(t, err)
			err = c.Provision(t.Context(), Config{Memory: true})
			got := ""
			if m, differs := errors.AsType[*MismatchError](err); differs && len(m.Differences) == 1 {
				d := m.Differences[0]
				got = fmt.Sprintf("%s is %s, must be %s: %s", d.Setting, d.Have, d.Want, c.Change(d))
			} else if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got != of.want && (of.want == "" || !strings.HasPrefix(got, of.want)) {
				t.Errorf("%s: %q, want %q", name, got, of.want)
			}
		})
	}
}

func TestStorageAndReplicasAreCompared(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		m, ok := errors.AsType[*MismatchError](c.Provision(t.Context(), Config{}))
		if !ok || len(m.Differences) != len(Topology("", Config{})) {
			t.Fatalf("Provision on disk of a cell in memory: %v", m)
		}
		if d := m.Differences[0]; d.Setting != "storage" || d.Have != "memory" || d.Want != "file" {
			t.Errorf("difference = %+v", d)
		}
		if err := openNamed(t, c.nc, c.names.NS+"2").Provision(t.Context(), Config{Memory: true, Replicas: 3}); err == nil {
			t.Error("three replicas on one server are created")
		}
	})
}

func TestBadConfigsAreRejected(t *testing.T) {
	inBareBubble(t, func(t *testing.T, c *Cell) {
		for _, cfg := range []Config{
			{Replicas: -1},
			{Replicas: 6},
			{Queues: []QueueConfig{{}}},
			{Queues: []QueueConfig{{Name: "a.b"}}},
			{Queues: []QueueConfig{{Name: "q", Concurrency: -1}}},
			{Queues: []QueueConfig{{Name: "q", AckWait: -1}}},
		} {
			if err := c.Provision(t.Context(), cfg); err == nil {
				t.Errorf("Provision(%+v) succeeds", cfg)
			}
		}
		if err := c.Check(t.Context()); !errors.Is(err, api.ErrNotProvisioned) {
			t.Errorf("Check = %v: nothing was to be created", err)
		}
	})
}

func TestQueuesKeepUnnamedSettings(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		must(t, c.EnsureQueue(t.Context(), QueueConfig{Name: "q", Concurrency: 5}))
		for _, same := range []QueueConfig{{Name: "q"}, {Name: "q", Concurrency: 5}, {Name: "q", AckWait: 30 * time.Second}} {
			if err := c.EnsureQueue(t.Context(), same); err != nil {
				t.Errorf("EnsureQueue(%+v) = %v", same, err)
			}
		}
		m, ok := errors.AsType[*MismatchError](c.EnsureQueue(t.Context(), QueueConfig{Name: "q", Concurrency: 6, AckWait: time.Minute}))
		want := []Difference{
			{"TURNLOG_TASKS > q_q", "ack_wait", "30s", "1m0s"},
			{"TURNLOG_TASKS > q_q", "max_ack_pending", "5", "6"},
		}
		if !ok || !slices.Equal(m.Differences, want) {
			t.Errorf("differences = %+v, want %+v", m, want)
		}
		if err := openNamed(t, c.nc, c.names.NS+"2").EnsureQueue(t.Context(), QueueConfig{Name: "q"}); !errors.Is(err, api.ErrNotProvisioned) {
			t.Errorf("EnsureQueue without a cell = %v, want api.ErrNotProvisioned", err)
		}
	})
}

func TestCheckNamesMissingObjects(t *testing.T) {
	inBareBubble(t, func(t *testing.T, c *Cell) {
		err := c.Check(t.Context())
		for _, row := range Topology(c.names.NS, Config{}) {
			if !errors.Is(err, api.ErrNotProvisioned) || !strings.Contains(err.Error(), row.Stream) {
				t.Errorf("Check = %v, want api.ErrNotProvisioned that names %s", err, row.Stream)
			}
		}
		must(t, c.Provision(t.Context(), Config{Memory: true}))
		must(t, jsOf(t, c).DeleteStream(t.Context(), c.names.TimersStream()))
		must(t, jsOf(t, c).DeleteConsumer(t.Context(), c.names.RunStream(), c.names.RunConsumer()))
		err = c.Check(t.Context())
		if !errors.Is(err, api.ErrNotProvisioned) || !strings.Contains(err.Error(), "missing TURNLOG_RUN > drivers, TURNLOG_TIMERS:") {
			t.Errorf("Check = %v, want that two are missing", err)
		}
	})
}

func TestServerWithoutJetStreamIsErrNoJetStream(t *testing.T) {
	t.Parallel()
	nc, err := nats.Connect(serverWithoutJetStream(t))
	must(t, err)
	t.Cleanup(nc.Close)
	c := openCell(t, nc)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	start := time.Now()
	for name, err := range map[string]error{
		"Provision":   c.Provision(ctx, Config{}),
		"EnsureQueue": c.EnsureQueue(ctx, QueueConfig{Name: "q"}),
		"Check":       c.Check(ctx),
	} {
		if !errors.Is(err, api.ErrNoJetStream) {
			t.Errorf("%s = %v, want api.ErrNoJetStream", name, err)
		}
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %v, want no retries", took)
	}
}

// serverWithoutJetStream is a server that answers every request with "no responders". It returns its
// URL.
func serverWithoutJetStream(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { _ = l.Close() })
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serveNoResponders(conn) })
		}
	})
	return "nats://" + l.Addr().String()
}

func serveNoResponders(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "INFO {\"server_id\":\"N\",\"version\":\"2.15.2\",\"headers\":true,\"max_payload\":1048576}\r\n")
	sids := make(map[string]string) // by the beginning of the subject
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 0:
		case words[0] == "PING":
			_, _ = fmt.Fprint(conn, "PONG\r\n")
		case words[0] == "SUB":
			sids[strings.TrimSuffix(words[1], "*")] = words[len(words)-1]
		case words[0] == "PUB" && len(words) == 4:
			_, _ = fmt.Fprintf(conn, "HMSG %s %s 16 16\r\nNATS/1.0 503\r\n\r\n\r\n", words[2], sids[words[2][:strings.LastIndex(words[2], ".")+1]])
		}
	}
}

// TestEverySettingIsFoundOnce checks that differences, which are reported by name, are unambiguous.
func TestEverySettingIsFoundOnce(t *testing.T) {
	t.Parallel()
	for names, config := range map[string]any{streamSettings: jetstream.StreamConfig{}, consumerSettings: jetstream.ConsumerConfig{}} {
		var found []string
		for _, s := range settings(config) {
			found = append(found, s.Name)
		}
		if want := strings.Fields(names); !slices.Equal(found, want) || len(slices.Compact(slices.Sorted(slices.Values(found)))) != len(want) {
			t.Errorf("settings = %v, want each of %v once", found, want)
		}
	}
}

func BenchmarkProvision(b *testing.B) {
	for _, disk := range []bool{false, true} {
		cfg := Config{Memory: !disk}
		server := func(b *testing.B) *embedded.Server {
			if disk {
				return startServer(b, embedded.WithStore(b.TempDir()))
			}
			return startServer(b)
		}
		b.Run(fmt.Sprintf("fresh/disk=%v", disk), func(b *testing.B) {
			nc := connect(b, server(b))
			for i := 0; b.Loop(); i++ {
				must(b, openNamed(b, nc, fmt.Sprint("ns", i)).Provision(b.Context(), cfg))
			}
		})
		b.Run(fmt.Sprintf("again/disk=%v", disk), func(b *testing.B) {
			c := openCell(b, connect(b, server(b)))
			for b.Loop() {
				must(b, c.Provision(b.Context(), cfg))
			}
		})
		b.Run(fmt.Sprintf("check/disk=%v", disk), func(b *testing.B) {
			c := openCell(b, connect(b, server(b)))
			must(b, c.Provision(b.Context(), cfg))
			for b.Loop() {
				must(b, c.Check(b.Context()))
			}
		})
	}
}
