package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/commands/schedule"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/blob"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/jetstream/schedules"
)

const grace = time.Hour

// name stores a blob and returns its name.
func keep(t *testing.T, c *Cell, data []byte) string {
	t.Helper()
	id, _, err := c.cell.Blobs().PutFrom(t.Context(), bytes.NewReader(data))
	must(t, err)
	return id
}

func gone(t *testing.T, c *Cell, id string) bool {
	t.Helper()
	_, ok, err := c.cell.Blobs().Get(t.Context(), id)
	must(t, err)
	return !ok
}

// say stores a message with a text on a subject of the cell.
func say(t *testing.T, c *Cell, subject, text string) {
	t.Helper()
	_, err := c.api.Publish(t.Context(), &nats.Msg{Subject: subject, Data: []byte(text)})
	must(t, err)
}

func TestOnlyUnreferencedBlobsAreCollected(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		n := c.names
		named := map[string]string{}
		for i, subject := range []string{
			n.Journal("s"), n.Cmd("s", "ask"), n.Timer("s", "x"), n.Task("q", "s", "p"), n.Snapshots().Key("s"),
		} {
			id := keep(t, c, noise(100+i, uint64(i)))
			named[id] = subject
			say(t, c, subject, "a kept output: 0123"+id+"9")
		}
		outer := keep(t, c, append(noise(200<<10, 20), keep(t, c, []byte("named by a blob"))...))
		header := nats.Header{layout.HeaderBlob: {outer}}
		named[outer] = "a header"
		_, err := c.api.Publish(t.Context(), &nats.Msg{Subject: n.Journal("s"), Header: header})
		must(t, err)
		inner := keep(t, c, []byte("named by a blob"))
		named[inner] = "a payload that is a blob"
		lost := []string{keep(t, c, nil), keep(t, c, noise(10, 30)), keep(t, c, noise(300<<10, 31))}

		<-time.After(grace + time.Second)
		young := keep(t, c, noise(10, 40))
		dry, err := c.Collect(t.Context(), grace, true)
		must(t, err)
		got, err := c.Collect(t.Context(), grace, false)
		must(t, err)
		if want := (Collected{Blobs: len(named) + 4, Removed: 3, Bytes: 10 + 300<<10, Young: 1}); got != want || dry != want {
			t.Errorf("Collect = %+v, dry %+v, want %+v", got, dry, want)
		}
		for id, by := range named {
			if gone(t, c, id) {
				t.Errorf("the blob that %s names is gone", by)
			}
		}
		for _, id := range lost {
			if !gone(t, c, id) {
				t.Errorf("blob %s is still there", id)
			}
		}
		if gone(t, c, young) {
			t.Error("the blob that was api.Message just now is gone")
		}
		chunks, err := c.api.Subjects(t.Context(), n.BlobStream(), n.BlobChunks("*"))
		must(t, err)
		if len(chunks) != len(named)+1 {
			t.Errorf("%d blobs have chunks, want %d", len(chunks), len(named)+1)
		}
		again, err := c.Collect(t.Context(), grace, false)
		if want := (Collected{Blobs: len(named) + 1, Young: 1}); err != nil || again != want {
			t.Errorf("Collect again = %+v, %v, want %+v", again, err, want)
		}
	})
}

// TestRenewedBlobIsNotCollected also covers a collector that was killed between its steps.
func TestRenewedBlobIsNotCollected(t *testing.T) {
	data := noise(300<<10, 1)
	inBubble(t, func(t *testing.T, c *Cell) {
		id := keep(t, c, data)
		other := keep(t, c, noise(10, 2))
		for _, b := range []string{id, other} { // a writer that is killed after its first step
			say(t, c, c.names.BlobMeta(b), `{"deleted":true}`)
		}
		if keep(t, c, data); gone(t, c, id) {
			t.Error("a blob stored after an interrupted removal is gone")
		}
		say(t, c, c.names.Journal("s"), id)
		<-time.After(2 * grace)
		got, err := c.Collect(t.Context(), grace, false)
		if err != nil || got.Removed != 1 || gone(t, c, id) {
			t.Errorf("Collect = %+v, %v, and the blob that is named is gone: %v", got, err, gone(t, c, id))
		}
	})
}

// TestConcurrentCollectionsKeepNewBlobs runs a collector while writers store a few blobs repeatedly
// and name them within the grace period.
func TestConcurrentCollectionsKeepNewBlobs(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		var writers sync.WaitGroup
		for w := range 4 {
			writers.Go(func() {
				r := rand.New(rand.NewPCG(uint64(w), 5))
				subject := c.names.Journal(content.SessionID(fmt.Sprintf("s-%d", w)))
				for range 20 {
					data := bytes.Repeat([]byte{byte(r.IntN(3))}, 200<<10)
					id, _, err := c.cell.Blobs().PutFrom(t.Context(), bytes.NewReader(data))
					if err != nil {
						t.Error(err)
						return
					}
					<-time.After(time.Duration(r.Int64N(int64(grace))))
					if _, err := c.api.Publish(t.Context(), &nats.Msg{Subject: subject, Data: []byte(id)}); err != nil {
						t.Error(err)
					}
					<-time.After(time.Duration(r.Int64N(int64(grace))))
					if _, ok, err := c.cell.Blobs().Get(t.Context(), id); !ok || err != nil {
						t.Errorf("blob %s of writer %d is there: %v, %v", id, w, ok, err)
						return
					}
					if err := c.api.Purge(t.Context(), c.names.JournalStream(), subject, 0); err != nil {
						t.Error(err)
					}
					<-time.After(time.Duration(r.Int64N(int64(3 * grace))))
				}
			})
		}
		done := make(chan struct{})
		go func() { writers.Wait(); close(done) }()
		removed := 0
		for {
			select {
			case <-done:
				if removed == 0 {
					t.Error("nothing was ever collected")
				}
				return
			case <-time.After(20 * time.Minute):
			}
			got, err := c.Collect(t.Context(), grace, false)
			must(t, err)
			removed += got.Removed
		}
	})
}

func TestOrphanedChunksAreCollected(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		ctx := t.Context()
		store := func(id string) {
			for n := range uint64(3) {
				_, err := c.api.Publish(ctx, &nats.Msg{Subject: c.names.BlobChunks(id), Data: noise(100<<10, n)})
				must(t, err)
			}
		}
		store("killed")
		store("*") // a name that the sender chose, and a wildcard
		<-time.After(grace / 2)
		store("busy")
		<-time.After(grace/2 + time.Second)
		got, err := c.Collect(ctx, grace, false)
		if want := (Collected{Parts: 1}); err != nil || got != want {
			t.Errorf("Collect = %+v, %v, want %+v", got, err, want)
		}
		left, err := c.api.Subjects(ctx, c.names.BlobStream(), c.names.BlobChunks("*"))
		must(t, err)
		if _, busy := left[c.names.BlobChunks("busy")]; !busy || len(left) != 2 {
			t.Errorf("chunks left: %v", left)
		}
	})
}

// TestFalseDescriptionsDeleteNoBlob describes blobs of other writers falsely, so that a collection
// would remove them.
func TestFalseDescriptionsDeleteNoBlob(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		id := keep(t, c, noise(300<<10, 1))
		_, err := c.api.Publish(t.Context(), &nats.Msg{Subject: c.names.Journal("s"), Header: nats.Header{layout.HeaderBlob: {id}}})
		must(t, err)
		described, err := c.api.Last(t.Context(), c.names.BlobStream(), c.names.BlobMeta(id))
		must(t, err)
		var victim blob.Meta
		must(t, json.Unmarshal(described.Data, &victim))
		for i, nuid := range []string{victim.NUID, ">", "*", "", "a.b"} {
			name := strings.Repeat(strconv.Itoa(i), blob.NameLen)
			say(t, c, c.names.BlobMeta(name), fmt.Sprintf(`{"name":%q,"nuid":%q,"size":7,"chunks":3}`, name, nuid))
		}
		say(t, c, c.names.BlobMeta(id), `{"deleted":true}`)
		<-time.After(2 * grace)
		got, err := c.Collect(t.Context(), grace, false)
		if err != nil || got.Removed != 5 {
			t.Errorf("Collect = %+v, %v, want 5 removed", got, err)
		}
		if gone(t, c, id) {
			t.Error("the blob that the journal names is gone")
		}
	})
}

// TestFalseRepetitionsDeleteNoDescription describes blobs again, so that a collection would take that for the
// description that it may keep alone.
func TestFalseRepetitionsDeleteNoDescription(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		for i, forge := range []func(blob.Meta) any{
			func(blob.Meta) any { return "no description" },
			func(m blob.Meta) any { m.Name = "another"; return m },
			func(m blob.Meta) any { m.NUID = "*"; return m },
			func(m blob.Meta) any { m.Size--; return m },
			func(m blob.Meta) any { m.Chunks = 0; return m },
			func(m blob.Meta) any { m.Digest = "another"; return m },
			func(m blob.Meta) any { m.Deleted = true; return m },
		} {
			id := keep(t, c, noise(300<<10, uint64(i)))
			_, err := c.api.Publish(t.Context(), &nats.Msg{Subject: c.names.Journal("s"), Header: nats.Header{layout.HeaderBlob: {id}}})
			must(t, err)
			described, err := c.api.Last(t.Context(), c.names.BlobStream(), c.names.BlobMeta(id))
			must(t, err)
			var victim blob.Meta
			must(t, json.Unmarshal(described.Data, &victim))
			forged, err := json.Marshal(forge(victim))
			must(t, err)
			say(t, c, c.names.BlobMeta(id), string(forged))
			<-time.After(2 * grace)
			for range 2 {
				_, err = c.Collect(t.Context(), grace, false)
				must(t, err)
			}
			if gone(t, c, id) {
				t.Errorf("the blob is gone after %s", forged)
			}
		}
	})
}

// TestPartsOfAFailedWriteAreCollected cancels a writer halfway.
func TestPartsOfAFailedWriteAreCollected(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		ctx, cancel := context.WithCancelCause(t.Context())
		enough, data := errors.New("enough"), noise(9<<20, 1)
		src := &stopped{Reader: bytes.NewReader(data), at: len(data) + len(data)/2, stop: func() { cancel(enough) }}
		if _, _, err := c.cell.Blobs().PutFrom(ctx, src); !errors.Is(err, enough) {
			t.Errorf("PutFrom = %v, want the cause", err)
		}
		if src.at < -6<<20 {
			t.Errorf("%d bytes were read after it was cancelled", -src.at)
		}
		sum := sha256.Sum256(data)
		if !gone(t, c, hex.EncodeToString(sum[:])) {
			t.Error("half a blob can be read")
		}
		<-time.After(2 * grace)
		got, err := c.Collect(t.Context(), grace, false)
		if want := (Collected{Parts: 1}); err != nil || got != want {
			t.Errorf("Collect = %+v, %v, want %+v", got, err, want)
		}
		left, err := c.api.Subjects(t.Context(), c.names.BlobStream(), ">")
		must(t, err)
		if len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// stopped calls a function after some bytes were read.
type stopped struct {
	*bytes.Reader
	at   int
	stop func()
}

func (s *stopped) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if s.at -= n; s.at <= 0 {
		s.stop()
	}
	return n, err
}

// WriteTo reads through Read.
func (s *stopped) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{s}) }

func TestBlobsNamedBySchedulesAreKept(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		id := keep(t, c, noise(100, 1))
		p := schedule.Schedule{Name: "p", Timing: schedule.Timing{Every: 24 * time.Hour}, By: "test", Session: "s", Created: time.Now().UTC().Truncate(time.Millisecond)}
		p.Commands = []commands.Command{commands.SubmitInput{Items: []content.Item{
			content.NewItem(content.User, content.TextPart("look"), content.BlobPart("a.png", "image/png", id, 100)),
		}}}
		must(t, schedules.Of(c.cell).Add(t.Context(), p, false))
		<-time.After(25 * time.Hour) // it has fired, too
		for range 2 {
			_, err := c.Collect(t.Context(), grace, false)
			must(t, err)
			if gone(t, c, id) {
				t.Fatal("the schedule's file was collected")
			}
			<-time.After(25 * time.Hour) // it fires again
		}
		must(t, schedules.Of(c.cell).Remove(t.Context(), "p"))
		_, err := c.Collect(t.Context(), grace, false)
		must(t, err)
		if !gone(t, c, id) {
			t.Error("the file outlived its schedule")
		}
	})
}

// TestCollectionAndHoldingsTolerateALaggingReplica checks that messages which a replica lacks count
// as neither deleted nor old.
func TestCollectionAndHoldingsTolerateALaggingReplica(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		k := c
		id := keep(t, c, noise(100<<10, 1))
		say(t, c, c.names.Journal("s"), "it names "+id)
		say(t, c, c.names.Journal("s"), "and goes on")
		<-time.After(2 * grace)
		for _, stream := range []string{c.names.BlobStream(), c.names.JournalStream()} {
			lagging(t, c, stream)
			got, err := k.Collect(t.Context(), grace, false)
			if want := (Collected{Blobs: 1}); err != nil || got != want {
				t.Errorf("with a lagging %s, Collect = %+v, %v, want %+v", stream, got, err, want)
			}
			if gone(t, c, id) {
				t.Fatalf("with a lagging %s, a blob that an entry names was removed", stream)
			}
		}
		lagging(t, c, c.names.JournalStream())
		if held, err := k.Holdings(t.Context()); err != nil || len(held) != 1 || held[0].Entries != 2 {
			t.Errorf("Holdings = %+v, %v, want one session with two entries", held, err)
		}
	})
}
