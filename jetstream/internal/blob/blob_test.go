package blob

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/internal/testing/allocated"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// inBubble runs a test in virtual time with a store on a server of its own.
func inBubble(t *testing.T, test func(t *testing.T, s *Store, stream jetstream.Stream)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		nc := natstest.Connect(t, natstest.Start(t))
		js, err := jetstream.New(nc)
		natstest.Must(t, err)
		n := layout.New("turnlog")
		for _, stream := range n.Streams() {
			if stream.Name == "BLOBS" {
				stream.Config.Storage = jetstream.MemoryStorage
				blobs, err := js.CreateStream(t.Context(), stream.Config)
				natstest.Must(t, err)
				test(t, NewStore(api.New(nc), n), blobs)
			}
		}
	})
}

func put(t *testing.T, s *Store, data []byte) (name string) {
	t.Helper()
	name, err := s.Put(t.Context(), data)
	natstest.Must(t, err)
	return name
}

func metaOf(t *testing.T, s *Store, name string) Meta {
	t.Helper()
	meta, err := s.meta(t.Context(), name)
	natstest.Must(t, err)
	return meta
}

func TestEqualBlobsAreStoredOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *Store, _ jetstream.Stream) {
		data := natstest.Noise(300<<10, 1)
		first := metaOf(t, s, put(t, s, data))
		if again := metaOf(t, s, put(t, s, data)); again.NUID != first.NUID {
			t.Errorf("the same bytes are at %s and %s, want one place", first.NUID, again.NUID)
		}
		var writers sync.WaitGroup
		for range 8 {
			writers.Go(func() {
				name, err := s.Put(t.Context(), natstest.Noise(300<<10, 2))
				if err != nil {
					t.Error(err)
				}
				if got, err := s.Get(t.Context(), name, 0); err != nil || len(got) != 300<<10 {
					t.Errorf("Get = %d bytes, %v", len(got), err)
				}
			})
		}
		writers.Wait()
	})
}

func TestBlobsCannotBeReplaced(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *Store, _ jetstream.Stream) {
		data := natstest.Noise(300<<10, 1)
		name := put(t, s, data)
		for _, msg := range []*nats.Msg{
			{Subject: s.names.BlobChunks(metaOf(t, s, name).NUID), Data: []byte("one chunk more")},
			{Subject: s.names.BlobMeta(name), Data: []byte(`{"nuid":"other"}`)},
		} {
			_, err := s.api.Publish(t.Context(), msg)
			natstest.Must(t, err)
		}
		wipe := &nats.Msg{Subject: s.names.BlobChunks("mine"), Header: nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupAll}}}
		if _, err := s.api.Publish(t.Context(), wipe); err == nil {
			t.Error("a roll-up of everything is accepted")
		}
		if got, err := s.Get(t.Context(), name, 0); err != nil || !bytes.Equal(got, data) {
			t.Errorf("Get = %d bytes, %v, want the stored bytes", len(got), err)
		}
	})
}

func TestDamagedBlobsAreErrMissing(t *testing.T) {
	for damage, spoil := range map[string]func(t *testing.T, s *Store, stream jetstream.Stream, chunk api.Message, name string){
		"chunk missing": func(t *testing.T, _ *Store, stream jetstream.Stream, chunk api.Message, _ string) {
			natstest.Must(t, stream.DeleteMsg(t.Context(), chunk.Seq))
		},
		"chunk altered": func(t *testing.T, s *Store, stream jetstream.Stream, chunk api.Message, _ string) {
			natstest.Must(t, stream.DeleteMsg(t.Context(), chunk.Seq))
			chunk.Data[0]++
			_, err := s.api.Publish(t.Context(), &nats.Msg{Subject: chunk.Subject, Data: chunk.Data})
			natstest.Must(t, err)
		},
		"description missing": func(t *testing.T, s *Store, _ jetstream.Stream, _ api.Message, name string) {
			s.Drop(t.Context(), name)
		},
	} {
		inBubble(t, func(t *testing.T, s *Store, stream jetstream.Stream) {
			name := put(t, s, natstest.Noise(300<<10, 1))
			chunk, err := s.api.Last(t.Context(), s.names.BlobStream(), s.names.BlobChunks(metaOf(t, s, name).NUID))
			natstest.Must(t, err)
			spoil(t, s, stream, chunk, name)
			if got, err := s.Get(t.Context(), name, 0); !errors.Is(err, ErrMissing) || got != nil {
				t.Errorf("%s: Get = %d bytes, %v, want ErrMissing", damage, len(got), err)
			}
		})
	}
	inBubble(t, func(t *testing.T, s *Store, _ jetstream.Stream) {
		for _, name := range []string{"hello", strings.Repeat("ab", 32), "*", strings.Repeat("ab", 33)} {
			if _, err := s.Get(t.Context(), name, 0); !errors.Is(err, ErrMissing) {
				t.Errorf("Get of %q = %v, want ErrMissing", name, err)
			}
		}
	})
}

// A description may name any size. Reading reserves memory as bytes arrive.
func TestADescriptionReservesLittleMemory(t *testing.T) { //nolint:paralleltest // it measures allocations
	inBubble(t, func(t *testing.T, s *Store, _ jetstream.Stream) {
		name := strings.Repeat("ab", 32)
		meta, err := json.Marshal(Meta{Name: name, Bucket: s.names.BlobBucket(), NUID: "none", Size: 2 << 30, Chunks: 1 << 14})
		natstest.Must(t, err)
		_, err = s.api.Publish(t.Context(), &nats.Msg{Subject: s.names.BlobMeta(name), Data: meta})
		natstest.Must(t, err)
		n := allocated.By(func() {
			if _, err := s.Get(t.Context(), name, 0); !errors.Is(err, ErrMissing) {
				t.Errorf("Get = %v, want ErrMissing", err)
			}
		})
		if n > allocated.Slack {
			t.Errorf("%d bytes were allocated for a blob without chunks", n)
		}
	})
}

func TestBlobsAreStreamed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *Store, _ jetstream.Stream) {
		for _, size := range []int{0, 1, chunkSize, 9 << 20} {
			data := natstest.Noise(size, uint64(size))
			name, n, err := s.PutFrom(t.Context(), bytes.NewReader(data))
			if err != nil || n != int64(size) {
				t.Fatalf("PutFrom = %d bytes, %v, want %d", n, err, size)
			}
			var got bytes.Buffer
			if err := s.CopyTo(t.Context(), name, &got); err != nil || !bytes.Equal(got.Bytes(), data) {
				t.Errorf("CopyTo = %d bytes, %v, want the %d", got.Len(), err, size)
			}
		}
		if _, _, err := s.PutFrom(t.Context(), &fickle{Reader: bytes.NewReader(natstest.Noise(1000, 1))}); !errors.Is(err, errChanged) {
			t.Errorf("PutFrom of a changing source = %v, want errChanged", err)
		}
	})
}

// fickle has one byte more each time it is read.
type fickle struct {
	*bytes.Reader
	times int
}

func (f *fickle) Seek(int64, int) (int64, error) {
	f.times++
	f.Reset(natstest.Noise(1000+f.times, 1))
	return 0, nil
}

// A writer and a collector may meet at an old blob in either order.
func TestRenewedBlobIsNotRetired(t *testing.T) {
	t.Parallel()
	data := natstest.Noise(300<<10, 1)
	last := func(t *testing.T, s *Store, name string) api.Message {
		t.Helper()
		m, err := s.api.Last(t.Context(), s.names.BlobStream(), s.names.BlobMeta(name))
		natstest.Must(t, err)
		return m
	}
	inBubble(t, func(t *testing.T, s *Store, _ jetstream.Stream) { // the writer first
		name := put(t, s, data)
		old := last(t, s, name)
		put(t, s, data)
		if _, retired, err := s.Retire(t.Context(), name, old.Seq); retired || err != nil {
			t.Errorf("Retire of a blob that was stored again = %v, %v", retired, err)
		}
		if got, err := s.Get(t.Context(), name, 0); err != nil || !bytes.Equal(got, data) {
			t.Errorf("Get = %d bytes, %v", len(got), err)
		}
	})
	inBubble(t, func(t *testing.T, s *Store, _ jetstream.Stream) { // the collector first
		name := put(t, s, data)
		found := last(t, s, name)
		if _, retired, err := s.Retire(t.Context(), name, found.Seq); !retired || err != nil {
			t.Fatalf("Retire = %v, %v", retired, err)
		}
		if err := s.describe(t.Context(), name, found.Data, found.Seq); !api.IsConflict(err) {
			t.Errorf("the writer's description = %v, want a conflict", err)
		}
		put(t, s, data)
		if got, err := s.Get(t.Context(), name, 0); err != nil || !bytes.Equal(got, data) {
			t.Errorf("Get of a blob that was stored again = %d bytes, %v", len(got), err)
		}
	})
}
