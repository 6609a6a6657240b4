package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// noise is n bytes that do not compress.
func noise(n int, seed uint64) []byte {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	out := make([]byte, n)
	_, _ = io.ReadFull(r, out)
	return out
}

func TestPayloadsComeBackExactly(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		for _, n := range []int{0, 1, maxInline, maxInline + 1, blobChunk, blobChunk + 1, 5 << 20} {
			data := noise(n, uint64(n))
			header, inline, err := c.pack(t.Context(), data)
			must(t, err)
			if isBlob := header.Get(headerBlob) != ""; isBlob != (n > maxInline) || isBlob && len(inline) > 0 {
				t.Errorf("%d bytes: %d inline, headers %v", n, len(inline), header)
			}
			got, err := c.unpack(t.Context(), header, inline)
			must(t, err)
			if !bytes.Equal(got, data) {
				t.Errorf("%d bytes come back as %d others", n, len(got))
			}
		}
	})
}

func blobOf(t *testing.T, c *Cell, header nats.Header) blobMeta {
	t.Helper()
	ref := header.Get(headerBlob)
	if ref == "" {
		return blobMeta{NUID: "none"}
	}
	meta, err := c.blobMeta(t.Context(), ref)
	must(t, err)
	return meta
}

func TestEqualBlobsAreStoredOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		data := noise(300<<10, 1)
		var stored []string
		for range 3 {
			header, _, err := c.pack(t.Context(), data)
			must(t, err)
			stored = append(stored, blobOf(t, c, header).NUID)
		}
		if stored[0] != stored[1] || stored[1] != stored[2] {
			t.Errorf("the same bytes are at %v, want one place", stored)
		}
	})
}

// TestOneBlobFromManyWriters also holds when all of them write it.
func TestOneBlobFromManyWriters(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		data := noise(300<<10, 1)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				header, _, err := c.pack(t.Context(), data)
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := c.unpack(t.Context(), header, nil); err != nil || !bytes.Equal(got, data) {
					t.Errorf("unpack = %d bytes, %v", len(got), err)
				}
			})
		}
		wg.Wait()
	})
}

// TestBlobsCannotBeReplaced plays a writer who means harm.
func TestBlobsCannotBeReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		data := noise(300<<10, 1)
		header, _, err := c.pack(t.Context(), data)
		must(t, err)
		meta := blobOf(t, c, header)
		for _, msg := range []*nats.Msg{
			{Subject: c.names.blobChunks(meta.NUID), Data: []byte("one chunk more")},
			{Subject: c.names.blobMeta(meta.Name), Data: []byte(`{"nuid":"other"}`)},
		} {
			_, err := c.publish(t.Context(), msg)
			must(t, err)
		}
		wipe := &nats.Msg{Subject: c.names.blobChunks("mine"), Header: nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupAll}}}
		if _, err := c.publish(t.Context(), wipe); err == nil {
			t.Error("a roll-up of everything is accepted")
		}
		got, err := c.unpack(t.Context(), header, nil)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("unpack = %d bytes, %v, want what was packed", len(got), err)
		}
	})
}

func TestDamagedBlobsAreFound(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(t *testing.T, c *Cell, meta blobMeta)
	}{
		{"chunk missing", func(t *testing.T, c *Cell, meta blobMeta) {
			m, err := c.leaderLast(t.Context(), c.names.blobStream(), c.names.blobChunks(meta.NUID))
			must(t, err)
			stream, err := c.js.Stream(t.Context(), c.names.blobStream())
			must(t, err)
			must(t, stream.DeleteMsg(t.Context(), m.Seq))
		}},
		{"chunk altered", func(t *testing.T, c *Cell, meta blobMeta) {
			subject := c.names.blobChunks(meta.NUID)
			m, err := c.leaderLast(t.Context(), c.names.blobStream(), subject)
			must(t, err)
			stream, err := c.js.Stream(t.Context(), c.names.blobStream())
			must(t, err)
			must(t, stream.DeleteMsg(t.Context(), m.Seq))
			m.Data[0]++
			_, err = c.publish(t.Context(), &nats.Msg{Subject: subject, Data: m.Data})
			must(t, err)
		}},
		{"description missing", func(t *testing.T, c *Cell, meta blobMeta) { c.dropBlob(t.Context(), meta.Name) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *Cell) {
				header, _, err := c.pack(t.Context(), noise(300<<10, 1))
				must(t, err)
				tt.spoil(t, c, blobOf(t, c, header))
				if got, err := c.unpack(t.Context(), header, nil); !errors.Is(err, ErrBlobMissing) || got != nil {
					t.Errorf("unpack = %d bytes, %v, want ErrBlobMissing", len(got), err)
				}
			})
		})
	}
	inBubble(t, func(t *testing.T, c *Cell) {
		for _, ref := range []string{"hello", strings.Repeat("ab", 32), "*", strings.Repeat("ab", 33)} {
			if _, err := c.unpack(t.Context(), nats.Header{headerBlob: {ref}}, nil); !errors.Is(err, ErrBlobMissing) {
				t.Errorf("unpack of %q = %v, want ErrBlobMissing", ref, err)
			}
		}
	})
}

// TestOtherClientsReadBlobsAndSnapshots uses the client library, which is what
// an operator's tools are made with.
func TestOtherClientsReadBlobsAndSnapshots(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		data := noise(300<<10, 1)
		header, _, err := c.pack(t.Context(), data)
		must(t, err)
		store, err := c.js.ObjectStore(t.Context(), c.names.blobBucket())
		must(t, err)
		got, err := store.GetBytes(t.Context(), header.Get(headerBlob))
		must(t, err)
		if !bytes.Equal(got, data) {
			t.Errorf("object store has %d bytes, want the %d that were written", len(got), len(data))
		}

		must(t, c.Snapshots().Put(t.Context(), "s", journal.Snapshot{Head: journal.Head{Seq: 1}, State: []byte("state")}))
		for _, bucket := range []string{c.names.snapBucket(), c.names.catalogBucket(), c.names.nodesBucket()} {
			kv, err := c.js.KeyValue(t.Context(), bucket)
			must(t, err)
			if bucket != c.names.snapBucket() {
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

func TestSnapshotsComeBack(t *testing.T) {
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
		blobs, err := c.subjects(t.Context(), c.names.blobStream(), c.names.blobMetas())
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
			_, err := c.publish(t.Context(), &nats.Msg{Subject: s.key(id), Data: []byte(value)})
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

func TestReadsEndWithTheirContext(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough of this")
		cancel(cause)
		if _, err := c.leaderLast(ctx, c.names.journalStream(), c.names.journal("s")); !errors.Is(err, cause) {
			t.Errorf("leaderLast = %v, want the cause", err)
		}
		if _, _, err := c.pack(ctx, noise(maxInline+1, 1)); !errors.Is(err, cause) {
			t.Errorf("pack = %v, want the cause", err)
		}
	})
}
