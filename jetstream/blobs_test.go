package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

func TestPayloadsAreReadExactly(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		for _, n := range []int{0, 1, maxInline, maxInline + 1, 128 << 10, 128<<10 + 1, 5 << 20} {
			data := noise(n, uint64(n))
			msg := nats.NewMsg("")
			must(t, c.put(t.Context(), msg, data))
			if isBlob := msg.Header.Get(layout.HeaderBlob) != ""; isBlob != (n > maxInline) || isBlob && len(msg.Data) > 0 {
				t.Errorf("%d bytes: %d inline, headers %v", n, len(msg.Data), msg.Header)
			}
			got, err := c.get(t.Context(), msg.Header, msg.Data, 0)
			must(t, err)
			if !bytes.Equal(got, data) {
				t.Errorf("%d bytes were read as %d others", n, len(got))
			}
		}
	})
}

func TestMissingBlobsAndCanceledWritesAreReported(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		if ok, err := c.Blobs().CopyTo(t.Context(), "none", &bytes.Buffer{}); ok || err != nil {
			t.Errorf("CopyTo of a missing blob = %v, %v; want false and no error", ok, err)
		}
		cause := errors.New("canceled by the test")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if err := c.put(ctx, nats.NewMsg(""), noise(maxInline+1, 1)); !errors.Is(err, cause) {
			t.Errorf("pack with an ended context = %v, want its cause", err)
		}
	})
}

// TestOtherClientsReadBlobsAndSnapshots uses the client library, like the tools of operators.
func TestOtherClientsReadBlobsAndSnapshots(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		data := noise(300<<10, 1)
		msg := nats.NewMsg("")
		must(t, c.put(t.Context(), msg, data))
		store, err := jsOf(t, c).ObjectStore(t.Context(), c.names.BlobBucket())
		must(t, err)
		got, err := store.GetBytes(t.Context(), msg.Header.Get(layout.HeaderBlob))
		must(t, err)
		if !bytes.Equal(got, data) {
			t.Errorf("object store has %d bytes, want the %d that were written", len(got), len(data))
		}

		must(t, c.Snapshots().Put(t.Context(), "s", journal.Snapshot{Head: journal.Head{Seq: 1}, State: []byte("state")}))
		for _, bucket := range []layout.Bucket{c.names.Snapshots(), c.names.Catalog(), c.names.Nodes()} {
			kv, err := jsOf(t, c).KeyValue(t.Context(), string(bucket))
			must(t, err)
			if bucket != c.names.Snapshots() {
				continue
			}
			entry, err := kv.Get(t.Context(), "s")
			must(t, err)
			if !bytes.Contains(entry.Value(), []byte("state")) {
				t.Errorf("bucket has %q", entry.Value())
			}
		}
	})
}

func TestSnapshotsAreReadExactly(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		s := c.Snapshots()
		if _, ok, err := s.Get(t.Context(), "s"); ok || err != nil {
			t.Fatalf("Get of none = %v, %v", ok, err)
		}
		for i, size := range []int{0, 100, 300 << 10, 10, 400 << 10, 500 << 10} {
			want := journal.Snapshot{Head: journal.Head{Seq: uint64(i), Hash: events.HashOf([]byte{byte(i)}), Guard: uint64(10 * i)}, State: noise(size, uint64(i))}
			must(t, s.Put(t.Context(), "s", want))
			must(t, s.Put(t.Context(), "other", journal.Snapshot{Head: journal.Head{Seq: 99}}))
			got, ok, err := s.Get(t.Context(), "s")
			if err != nil || !ok || got.Head != want.Head || !bytes.Equal(got.State, want.State) {
				t.Fatalf("Get = %+v, %v, %v, want %+v", got.Head, ok, err, want.Head)
			}
		}
		blobs, err := c.api.Subjects(t.Context(), c.names.BlobStream(), c.names.BlobMetas())
		must(t, err)
		if len(blobs) != 1 {
			t.Errorf("%d blobs, want only that of the newest snapshot", len(blobs))
		}
	})
}

func TestBadSnapshotsAreErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		s := c.Snapshots()
		for _, id := range []content.SessionID{"", "a.b", "*"} {
			if err := s.Put(t.Context(), id, journal.Snapshot{}); !errors.Is(err, content.ErrBadID) {
				t.Errorf("Put of %q = %v, want ErrBadID", id, err)
			}
			if _, ok, err := s.Get(t.Context(), id); ok || err != nil {
				t.Errorf("Get of %q = %v, %v", id, ok, err)
			}
		}
		head := "\x94\x01\xc4\x20" + strings.Repeat("h", 32) + "\x02"
		for i, value := range []string{"", "hello", "\x94\x01", "\x95\x01\x02\x03\x04\x05", head + "\xc4\x03ab", head + "\xc4\x01ab"} {
			id := content.SessionID(fmt.Sprintf("s-%d", i))
			_, err := c.api.Publish(t.Context(), &nats.Msg{Subject: c.names.Snapshots().Key(string(id)), Data: []byte(value)})
			must(t, err)
			if _, ok, err := s.Get(t.Context(), id); ok || err == nil {
				t.Errorf("Get of the snapshot %q = %v, %v, want an error", value, ok, err)
			}
		}
		must(t, s.Put(t.Context(), "s-1", journal.Snapshot{Head: journal.Head{Seq: 1}}))
		if _, ok, err := s.Get(t.Context(), "s-1"); !ok || err != nil {
			t.Errorf("Get after a good one replaced it = %v, %v", ok, err)
		}
	})
}

func TestBlobsAreSharedByAllUsers(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		data := noise(200<<10, 7)
		id, _, err := c.Blobs().PutFrom(t.Context(), bytes.NewReader(data))
		must(t, err)
		got, ok, err := openCell(t, c.nc).Blobs().Get(t.Context(), id)
		must(t, err)
		if !ok || !bytes.Equal(got, data) {
			t.Errorf("Get = %d bytes, %v", len(got), ok)
		}
		for _, none := range []string{"", "x", "../x", strings.Repeat("0", 64)} {
			if _, ok, err := c.Blobs().Get(t.Context(), none); ok || err != nil {
				t.Errorf("Get(%q) = %v, %v", none, ok, err)
			}
		}
	})
}
