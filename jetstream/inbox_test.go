package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/testing/allocated"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/worker/task"
)

// Commands of each lane that a test sends.

func submit(s content.SessionID, id, text string) commands.Envelope {
	return commands.Envelope{ID: id, Session: s, Command: commands.SubmitInput{Items: []content.Item{content.UserText(text)}}}
}

func decision(s content.SessionID, id string) commands.Envelope {
	return commands.Envelope{ID: id, Session: s, Command: commands.ResolveApproval{Approve: true}}
}

func lostReport(s content.SessionID, id string) commands.Envelope {
	return commands.Envelope{ID: id, Session: s, Command: commands.ReportAttemptLost{Place: "t1-r1-c1", Attempt: 1}}
}

func fired(s content.SessionID, id string) commands.Envelope {
	return commands.Envelope{ID: id, Session: s, Command: commands.ReportTimer{Kind: commands.TimerRetry}}
}

// send sends the commands in order and returns their sequences.
func send(t testing.TB, c *Cell, envs ...commands.Envelope) []uint64 {
	t.Helper()
	var out []uint64
	for _, env := range envs {
		seq, err := c.Inbox().Send(t.Context(), env)
		must(t, err)
		out = append(out, seq)
	}
	return out
}

func read(t testing.TB, c *Cell, s content.SessionID, cursors ...events.Cursor) []Message {
	t.Helper()
	return opened(t, c, c.Inbox().Read(t.Context(), s, cursors, 0))
}

// opened opens all messages.
func opened(t testing.TB, c *Cell, seq iter.Seq2[Message, error]) []Message {
	t.Helper()
	out, err := natstest.Collect(seq)
	must(t, err)
	for i := range out {
		must(t, c.Inbox().Open(t.Context(), &out[i]))
	}
	return out
}

// ids lists the lane and ID of each message.
func ids(messages []Message) []string {
	var out []string
	for _, m := range messages {
		out = append(out, string(m.Lane)+" "+m.Envelope.ID)
	}
	return out
}

func wantIDs(t testing.TB, got []Message, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, ids(got)); diff != "" {
		t.Fatalf("commands (-want +got):\n%s", diff)
	}
}

// dueNow lets a timer of the session fire and waits until it is in the inbox.
func dueNow(t testing.TB, c *Cell, s content.SessionID, id string) {
	t.Helper()
	must(t, c.Timers().Arm(t.Context(), s, id, time.Now(), fired(s, id)))
	for {
		m, err := c.api.Last(t.Context(), c.names.TimersStream(), c.names.Due(s))
		if err == nil && strings.Contains(string(m.Data), id) {
			return
		}
		if err != nil && !api.IsNotFound(err) {
			t.Fatal(err)
		}
		<-time.After(10 * time.Millisecond) // of the bubble's time
	}
}

func TestReadStartsAfterEachLanesCursor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		seqs := send(t, c,
			lostReport("s1", "r1"), submit("s1", "a1", "hello"), submit("s2", "x", "not mine"),
			decision("s1", "d1"), submit("s1", "a2", "again"), lostReport("s1", "r2"))
		dueNow(t, c, "s1", "timer-1")
		dueNow(t, c, "s1", "timer-2")
		all := read(t, c, "s1")
		wantIDs(t, all, "ask a1", "ask a2", "decide d1", "report r1", "report r2", "due timer-1", "due timer-2")
		if all[1].Seq != seqs[4] || all[1].Last != seqs[1] || all[0].Last != 0 {
			t.Errorf("second ask is %d after %d, first after %d, want %d after %d and 0",
				all[1].Seq, all[1].Last, all[0].Last, seqs[4], seqs[1])
		}
		if diff := cmp.Diff(submit("s1", "a1", "hello"), all[0].Envelope); diff != "" {
			t.Errorf("first ask (-want +got):\n%s", diff)
		}
		wantIDs(t, read(t, c, "s1",
			events.Cursor{Lane: events.LaneAsk, Seq: all[0].Seq},
			events.Cursor{Lane: events.LaneReport, Seq: all[4].Seq},
			events.Cursor{Lane: events.LaneDue, Seq: all[5].Seq},
		), "ask a2", "decide d1", "due timer-2")
	})
}

func TestReadEndsEachLaneAtItsLimitExceptReports(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		send(t, c, submit("s1", "a1", ""), lostReport("s1", "r1"), submit("s1", "a2", ""), lostReport("s1", "r2"),
			decision("s1", "d1"), submit("s1", "a3", ""), lostReport("s1", "r3"))
		got := opened(t, c, c.Inbox().Read(t.Context(), "s1", nil, 2))
		wantIDs(t, got, "ask a1", "ask a2", "decide d1", "report r1", "report r2", "report r3")
		for i, m := range got {
			if m.More != (i == 1) {
				t.Errorf("More of message %d = %v, want it for the second ask only", i, m.More)
			}
		}
		for _, err := range c.Inbox().Read(t.Context(), "s1", nil, 0) {
			must(t, err)
			break // a reader may stop at any time
		}
	})
}

// handle takes the commands with these IDs.
func handle(t *testing.T, r *Reader, ids ...string) {
	t.Helper()
	for _, m := range opened(t, r.inbox.cell, r.Read(t.Context(), 0)) {
		if slices.Contains(ids, m.Envelope.ID) {
			r.Take(m)
		}
	}
}

func TestPurgeDeletesHandledCommands(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		send(t, c, submit("s1", "a1", ""), lostReport("s1", "r1"), submit("s1", "a2", ""), submit("s2", "x", ""), submit("s1", "a3", ""))
		dueNow(t, c, "s1", "timer-1")
		must(t, c.Timers().Arm(t.Context(), "s1", "pending", time.Now().Add(time.Hour), fired("s1", "pending")))
		r := c.Inbox().Reader("s1", []events.Cursor{{Lane: events.LaneLocal, Seq: 7}})
		handle(t, r, "a1", "a2", "r1", "timer-1")
		must(t, r.Purge(t.Context(), true))
		wantIDs(t, read(t, c, "s1"), "ask a2", "ask a3", "report r1", "due timer-1")
		must(t, r.Purge(t.Context(), false))
		wantIDs(t, read(t, c, "s1"), "ask a3")
		wantIDs(t, read(t, c, "s2"), "ask x")
		<-time.After(2 * time.Hour)
		wantIDs(t, read(t, c, "s1"), "ask a3", "due pending") // a purge leaves timers alone
	})
}

func TestHasAnyCoversEveryLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		want := func(s content.SessionID, want bool) {
			t.Helper()
			got, err := c.Inbox().HasAny(t.Context(), s)
			if got != want || err != nil {
				t.Fatalf("HasAny of %s = %v, %v, want %v", s, got, err, want)
			}
		}
		want("s1", false)
		must(t, c.Timers().Arm(t.Context(), "s1", "later", time.Now().Add(time.Hour), fired("s1", "later")))
		want("s1", false) // nothing is due
		send(t, c, lostReport("s2", "r1"))
		want("s2", true)
		want("s1", false)
		<-time.After(time.Hour + time.Second)
		want("s1", true)
	})
}

func TestLargeCommandsAreBlobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		large := submit("s1", "large", strings.Repeat("much ", 300_000)) // larger than the largest message
		send(t, c, submit("s1", "small", "hello"), large)
		got := read(t, c, "s1")
		wantIDs(t, got, "ask small", "ask large")
		if diff := cmp.Diff(large, got[1].Envelope); diff != "" {
			t.Error("the large command differs from the sent one")
		}
	})
}

func TestBadCommandsAreReadWithAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		put := func(lane events.Lane, header nats.Header, data []byte) {
			t.Helper()
			_, err := c.api.Publish(t.Context(), &nats.Msg{Subject: c.names.Cmd("s1", lane), Header: header, Data: data})
			must(t, err)
		}
		encoded := func(env commands.Envelope) []byte {
			t.Helper()
			data, err := env.Encode()
			must(t, err)
			return data
		}
		put(events.LaneAsk, nil, []byte("no command"))
		put(events.LaneAsk, nil, encoded(submit("s2", "foreign", "")))
		put(events.LaneAsk, nil, encoded(lostReport("s1", "forged"))) // a client may not report
		put(events.LaneAsk, nats.Header{layout.HeaderBlob: {strings.Repeat("0", 64)}}, nil)
		send(t, c, submit("s1", "good", ""))
		got := read(t, c, "s1")
		if len(got) != 5 {
			t.Fatalf("%d messages, want 5: %+v", len(got), got)
		}
		for i, want := range []error{commands.ErrBadCommand, commands.ErrBadCommand, commands.ErrBadCommand, ErrBlobMissing, nil} {
			if !errors.Is(got[i].Err, want) || (want == nil) != (got[i].Err == nil) {
				t.Errorf("error of message %d = %v, want %v", i, got[i].Err, want)
			}
			if got[i].Seq == 0 {
				t.Errorf("message %d has no sequence, so it cannot be skipped", i)
			}
		}
	})
}

func TestSendRejectsCommandsWithoutALane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		for _, env := range []commands.Envelope{
			{ID: "1", Session: "s1", Command: commands.Park{}},
			fired("s1", "2"),
		} {
			if _, err := c.Inbox().Send(t.Context(), env); !errors.Is(err, ErrNoLane) {
				t.Errorf("Send of %s = %v, want ErrNoLane", commands.NameOf(env.Command), err)
			}
		}
		for _, s := range []content.SessionID{"", "a.b", "*", "s.ask\r\nPUB x"} {
			if _, err := c.Inbox().Send(t.Context(), submit(s, "1", "")); !errors.Is(err, content.ErrBadID) {
				t.Errorf("Send to %q = %v, want ErrBadID", s, err)
			}
		}
	})
}

func TestSendWaitsForTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := openCell(t, connect(t, startServer(t)))
		sent := make(chan error)
		go func() {
			_, err := c.Inbox().Send(t.Context(), submit("s1", "a1", ""))
			sent <- err
		}()
		<-time.After(5 * time.Second) // as long as an election may take
		create(t, c, jetstream.MemoryStorage, 1)
		must(t, <-sent)
		wantIDs(t, read(t, c, "s1"), "ask a1")
	})
}

func TestSendToAMissingCellIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := openCell(t, connect(t, startServer(t)))
		if _, err := c.Inbox().Send(t.Context(), submit("s1", "a1", "")); !errors.Is(err, ErrNotProvisioned) {
			t.Errorf("Send = %v, want ErrNotProvisioned", err)
		}
		if _, err := natstest.Collect(c.Inbox().Read(t.Context(), "s1", nil, 0)); !errors.Is(err, ErrNotProvisioned) {
			t.Errorf("Read = %v, want ErrNotProvisioned", err)
		}
	})
}

func TestInboxesOfSessionsAreSeparate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		for i := range 20 {
			s := content.SessionID(fmt.Sprintf("s%d", i))
			send(t, c, submit(s, "a-"+string(s), ""), lostReport(s, "r-"+string(s)))
		}
		for i := range 20 {
			s := content.SessionID(fmt.Sprintf("s%d", i))
			wantIDs(t, read(t, c, s), "ask a-"+string(s), "report r-"+string(s))
		}
	})
}

func TestTooLargeAskIsReadWithAnError(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		id, _, err := c.Blobs().PutFrom(t.Context(), bytes.NewReader(make([]byte, maxCommand+1)))
		must(t, err)
		msg := nats.NewMsg(c.names.Cmd("s", events.LaneAsk))
		msg.Header.Set(layout.HeaderBlob, id)
		_, err = c.api.Publish(t.Context(), msg)
		must(t, err)
		send(t, c, submit("s", "next", ""))
		got := read(t, c, "s")
		if len(got) != 2 || !errors.Is(got[0].Err, commands.ErrBadCommand) || !errors.Is(got[0].Err, ErrTooLarge) || got[1].Err != nil {
			t.Errorf("read %+v, want a bad command and the next", got)
		}
	})
}

// A few stored bytes can declare any size, and be of another.
func TestTheSizeOfABlobIsCheckedBeforeItIsFetched(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		name := strings.Repeat("ab", 32)
		for nuid, meta := range map[string]string{
			"declared": `{"name":%q,"bucket":%q,"nuid":"declared","size":2600000000,"chunks":20000}`,
			"chunked":  `{"name":%q,"bucket":%q,"nuid":"chunked","size":1000,"chunks":4000000000}`,
			"longer":   `{"name":%q,"bucket":%q,"nuid":"longer","size":1000,"chunks":1}`,
			"shorter":  `{"name":%q,"bucket":%q,"nuid":"shorter","size":100000000,"chunks":800}`,
		} {
			_, err := c.api.Publish(t.Context(), &nats.Msg{Subject: c.names.BlobChunks(nuid), Data: make([]byte, 128<<10)})
			must(t, err)
			must(t, c.api.Purge(t.Context(), c.names.BlobStream(), c.names.BlobMeta(name), 0))
			_, err = c.api.Publish(t.Context(), &nats.Msg{
				Subject: c.names.BlobMeta(name), Data: fmt.Appendf(nil, meta, name, c.names.BlobBucket()),
			})
			must(t, err)
			msg := nats.NewMsg(c.names.Cmd(content.SessionID(nuid), events.LaneReport))
			msg.Header.Set(layout.HeaderBlob, name)
			_, err = c.api.Publish(t.Context(), msg)
			must(t, err)
			var got []Message
			took := allocated.By(func() { got = read(t, c, content.SessionID(nuid)) })
			most := int64(4 << 20)
			if nuid == "shorter" {
				most += 2 * 100_000_000 // twice what it declares: under the race detector, growing a slice allocates its size twice
			}
			if len(got) != 1 || got[0].Err == nil || (nuid == "declared") != errors.Is(got[0].Err, ErrTooLarge) || took > most {
				t.Errorf("%s: read %+v, allocated %d", nuid, got, took)
			}
		}
	})
}

// Two commands that may take half of the memory or more are not decoded at once.
func TestCommandsShareTheMemoryForDecoding(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		send(t, c, submit("s", "a", "x"), submit("s", "b", "y"))
		got, err := natstest.Collect(c.Inbox().Read(t.Context(), "s", nil, 0))
		must(t, err)
		must(t, c.decoding.Acquire(t.Context(), decodingMemory))
		opened := make(chan error)
		go func() { opened <- c.Inbox().Open(t.Context(), &got[0]) }()
		synctest.Wait()
		if got[0].Envelope.ID != "" {
			t.Error("a command is decoded without memory")
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Inbox().Open(ended, &got[1]); !errors.Is(err, context.Canceled) {
			t.Errorf("Open with an ended context = %v", err)
		}
		c.decoding.Release(decodingMemory)
		must(t, <-opened)
		wantIDs(t, got[:1], "ask a")
	})
}

func TestTooLargeAskIsNotSent(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		env := commands.Envelope{ID: "c", Session: "s", Command: commands.SubmitInput{Items: []content.Item{
			content.NewItem(content.User, content.Part{Kind: content.MediaKind, Media: &content.Media{Bytes: make([]byte, maxCommand)}}),
		}}}
		if _, err := c.Inbox().Send(t.Context(), env); !errors.Is(err, ErrTooLarge) {
			t.Errorf("Send = %v, want ErrTooLarge", err)
		}
		if any, err := c.Inbox().HasAny(t.Context(), "s"); any || err != nil {
			t.Errorf("HasAny = %v, %v", any, err)
		}
	})
}

// TestReadMissesNoConcurrentCommand reads two sessions' commands while they are sent. A missed
// command would never be handled.
func TestReadMissesNoConcurrentCommand(t *testing.T) {
	t.Parallel()
	const each = 1500
	s := startServer(t)
	c := provision(t, connect(t, s))
	sessions := []content.SessionID{"s1", "s2"}
	nc := connect(t, s)
	var sending sync.WaitGroup
	sending.Go(func() {
		sent := make([]int, len(sessions))
		r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // for a test
		for sent[0] < each || sent[1] < each {
			i := r.IntN(len(sessions))
			for range 1 + r.IntN(40) {
				if sent[i] == each {
					break
				}
				raw, err := submit(sessions[i], strconv.Itoa(sent[i]), "").Encode()
				if err == nil {
					err = nc.Publish(c.names.Cmd(sessions[i], events.LaneAsk), raw)
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
			ctx := within(t, api.Patience*10)
			for got, at := 0, uint64(0); got < each; {
				found, err := natstest.Collect(c.Inbox().Read(ctx, id, []events.Cursor{{Lane: events.LaneAsk, Seq: at}}, 0))
				if err != nil {
					t.Errorf("Read after %d commands = %v", got, err)
					return
				}
				for _, m := range found {
					if err := c.Inbox().Open(ctx, &m); err != nil || m.Envelope.ID != strconv.Itoa(got) || m.Last != at {
						t.Errorf("%s after %d: command %q, after %d, %v, want number %d", id, at, m.Envelope.ID, m.Last, err, got)
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

// A full stream refuses what is new with an error that says so, and keeps what it has.
func TestAFullStreamRefusesWhatIsNew(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		change := func(stream string, change func(*jetstream.StreamConfig)) {
			s, err := jsOf(t, c).Stream(t.Context(), stream)
			must(t, err)
			cfg := s.CachedInfo().Config
			change(&cfg)
			_, err = jsOf(t, c).UpdateStream(t.Context(), cfg)
			must(t, err)
		}
		full := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "stream TURNLOG_") || api.IsUnknown(err) {
				t.Errorf("%s: %v", what, err)
			}
		}
		ask := func(s content.SessionID, n int) error {
			_, err := c.Inbox().Send(t.Context(), commands.Envelope{ID: fmt.Sprint(s, n), Session: s, Command: commands.Close{}})
			return err
		}
		change(c.names.InboxStream(), func(cfg *jetstream.StreamConfig) {
			cfg.Discard, cfg.DiscardNewPerSubject, cfg.MaxMsgs, cfg.MaxMsgsPerSubject = jetstream.DiscardNew, true, 3, 2
		})
		must(t, ask("a", 1))
		must(t, ask("a", 2))
		full("a session's third command", ask("a", 3))
		must(t, ask("b", 1))
		full("the fourth command", ask("b", 2))
		change(c.names.InboxStream(), func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs, cfg.MaxBytes = -1, 10 })
		full("a command over the bytes", ask("c", 1))
		for s, want := range map[content.SessionID]int{"a": 2, "b": 1} {
			n := 0
			for _, err := range c.Inbox().Read(t.Context(), s, nil, 0) {
				must(t, err)
				n++
			}
			if n != want {
				t.Errorf("%s has %d commands, want %d", s, n, want)
			}
		}
		change(c.names.TasksStream(), func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = 1 })
		x := task.Task{Session: "a", Place: "t1-r1-c1", Attempt: 1, Queue: "q"}
		must(t, c.Tasks().Dispatch(t.Context(), x))
		x.Session = "b"
		err := c.Tasks().Dispatch(t.Context(), x)
		if full("the second task", err); errors.Is(err, ErrUnclear) {
			t.Errorf("the outcome is said to be unclear: %v", err)
		}
	})
}
