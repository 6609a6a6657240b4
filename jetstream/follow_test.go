package jetstream

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/journaltest"
	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// following follows in its own goroutine and returns the records on a channel, which it closes at
// the end.
func following(ctx context.Context, t *testing.T, records func(func(journal.Record, error) bool)) <-chan journal.Record {
	out := make(chan journal.Record)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(out)
		for rec, err := range records {
			if err != nil {
				t.Errorf("following ended: %v", err)
				return
			}
			select {
			case out <- rec:
			case <-ctx.Done():
			}
		}
	})
	t.Cleanup(wg.Wait)
	return out
}

// expect checks that the next records are those of heads.
func expect(t *testing.T, records <-chan journal.Record, heads ...journal.Head) {
	t.Helper()
	for _, want := range heads {
		select {
		case rec := <-records:
			if rec.Head != want {
				t.Fatalf("followed to %+v, want %+v", rec.Head, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("entry %d did not arrive", want.Seq)
		}
	}
}

// expectNone checks that there is no record.
func expectNone(t *testing.T, records <-chan journal.Record) {
	t.Helper()
	synctest.Wait()
	select {
	case rec := <-records:
		t.Fatalf("entry %d was yielded, want none", rec.Seq)
	default:
	}
}

// muteCell is provisioned without live copies of journals, which a server may lose when leaders
// change. The test publishes them.
func muteCell(t *testing.T) *Cell {
	t.Helper()
	c := openCell(t, connect(t, startServer(t)))
	cfg := c.names.Streams()[0].Config
	cfg.Storage = jetstream.MemoryStorage
	cfg.RePublish = nil
	_, err := jsOf(t, c).CreateStream(t.Context(), cfg)
	must(t, err)
	return c
}

// liveCopy publishes the server's copy of the entry at a guard.
func liveCopy(t *testing.T, c *Cell, s content.SessionID, guard, before uint64) {
	t.Helper()
	m, err := c.api.Next(t.Context(), c.names.JournalStream(), c.names.Journal(s), guard)
	must(t, err)
	msg := &nats.Msg{Subject: c.names.Live(m.Subject), Header: m.Header, Data: m.Data}
	msg.Header.Set(jetstream.SubjectHeader, m.Subject)
	msg.Header.Set(jetstream.SequenceHeader, strconv.FormatUint(m.Seq, 10))
	msg.Header.Set(jetstream.TimeStampHeaer, m.Time.Format(time.RFC3339Nano))
	msg.Header.Set("Nats-Last-Sequence", strconv.FormatUint(before, 10))
	must(t, c.nc.PublishMsg(msg))
}

func TestFollowNeedsNoLiveCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := muteCell(t)
		ctx, cancel := context.WithCancel(t.Context())
		records := following(ctx, t, c.Journal().Follow(ctx, "s", 0))
		heads := journaltest.Fill(t, c.Journal(), "s", journal.Head{}, 3)
		for range 3 {
			start := time.Now()
			end := heads[len(heads)-1]
			expect(t, records, heads[1:]...)
			if took := time.Since(start); took > api.Quiet {
				t.Errorf("entries arrived after %v, want at most %v", took, api.Quiet)
			}
			heads = journaltest.Fill(t, c.Journal(), "s", end, 5)
		}
		cancel()
	})
}

func TestFollowRepairsAGapAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := muteCell(t)
		ctx, cancel := context.WithCancel(t.Context())
		records := following(ctx, t, c.Journal().Follow(ctx, "s", 0))
		synctest.Wait() // it has read the empty stream
		start := time.Now()
		h := journaltest.Fill(t, c.Journal(), "s", journal.Head{}, 8)
		liveCopy(t, c, "s", h[2].Guard, h[1].Guard)
		expect(t, records, h[1:]...) // the others have no copies and are read from the stream
		liveCopy(t, c, "s", h[8].Guard, h[7].Guard)
		liveCopy(t, c, "s", h[3].Guard, h[2].Guard)
		expectNone(t, records) // repeated copies are ignored

		more := journaltest.Fill(t, c.Journal(), "s", h[8], 2)
		liveCopy(t, c, "s", more[2].Guard, more[1].Guard) // the copy before was lost
		expect(t, records, more[1:]...)
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v, want no time: the copy after a gap shows it", took)
		}
		cancel()
	})
}

func TestFollowVerifiesLiveCopies(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		ctx, cancel := context.WithCancel(t.Context())
		j := c.Journal()
		records := following(ctx, t, j.Follow(ctx, "s", 0))
		h := journaltest.Fill(t, j, "s", journal.Head{}, 1)
		expect(t, records, h[1])

		payload, header := sealed(t, h[1], journaltest.Entry("s", 666))
		forged := &nats.Msg{Subject: c.names.Live(c.names.Journal("s")), Header: header, Data: payload}
		must(t, c.nc.PublishMsg(forged)) // without a sequence
		forged.Header.Set(jetstream.SubjectHeader, c.names.Journal("s"))
		forged.Header.Set(jetstream.SequenceHeader, "2")
		forged.Header.Set(jetstream.TimeStampHeaer, time.Now().Format(time.RFC3339Nano))
		forged.Header.Set("Nats-Last-Sequence", "77") // claims that entries were missed
		must(t, c.nc.PublishMsg(forged))
		forged.Header.Set("Nats-Last-Sequence", "1")
		forged.Data = []byte("hello") // claims to be the next one, but is no entry
		must(t, c.nc.PublishMsg(forged))
		expectNone(t, records)
		h = journaltest.Fill(t, j, "s", h[1], 1)
		expect(t, records, h[1])
		cancel()
	})
}

func TestSlowFollowerMissesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		ctx, cancel := context.WithCancel(t.Context())
		records := following(ctx, t, c.Journal().Follow(ctx, "s", 0))
		h := journaltest.Fill(t, c.Journal(), "s", journal.Head{}, 4*api.LiveBuffer) // far more than the buffer holds
		expect(t, records, h[1:]...)
		h = journaltest.Fill(t, c.Journal(), "s", h[len(h)-1], 1)
		expect(t, records, h[1])
		cancel()
	})
}

func TestFollowFromStartsAfterItsHead(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		ctx, cancel := context.WithCancel(t.Context())
		j := c.Journal()
		h := journaltest.Fill(t, j, "s", journal.Head{}, 5)
		records := following(ctx, t, j.FollowFrom(ctx, "s", h[3]))
		expect(t, records, h[4:]...)
		more := journaltest.Fill(t, j, "s", h[5], 2)
		expect(t, records, more[1:]...)
		cancel()

		wrong := h[3]
		wrong.Hash[0]++
		if _, err := drain(j.FollowFrom(t.Context(), "s", wrong)); !errors.Is(err, journal.ErrDamaged) {
			t.Errorf("after a head of another chain: %v, want ErrDamaged", err)
		}
	})
}

func TestFollowOutlivesTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServer(t, embedded.WithStore(dir), embedded.WithListener("127.0.0.1:0"))
	u, err := url.Parse(s.ClientURL())
	must(t, err)
	reconnect := []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(10 * time.Millisecond), nats.ReconnectBufSize(-1)}
	reader, writer := openCell(t, connectTCP(t, s, reconnect...)), openCell(t, connectTCP(t, s, reconnect...))
	create(t, writer, jetstream.FileStorage, 1)

	ctx, cancel := context.WithCancel(t.Context())
	records := following(ctx, t, reader.Journal().Follow(ctx, "s", 0))
	h := journaltest.Fill(t, writer.Journal(), "s", journal.Head{}, 3)
	expect(t, records, h[1:]...)
	s.Close()
	startServer(t, embedded.WithStore(dir), embedded.WithListener(u.Host))
	head := h[3]
	for end := time.Now().Add(time.Minute); head == h[3]; {
		next, err := writer.Journal().Append(t.Context(), head, journaltest.Entry("s", 4))
		switch {
		case err == nil:
			head = next
		case time.Now().After(end):
			t.Fatal(err)
		}
	}
	expect(t, records, head)
	cancel()
}
