package blob

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// maxRaces is how often other writers may describe or retire a blob while it is being stored.
const maxRaces = 10

var (
	errRace    = errors.New("other writers keep changing it")
	errChanged = errors.New("the bytes changed while they were stored")
)

// Put stores data unless it is there, and returns its name.
func (s *Store) Put(ctx context.Context, data []byte) (name string, err error) {
	name, _, err = s.PutFrom(ctx, bytes.NewReader(data))
	return name, err
}

// PutFrom stores the content of src from its start, unless it is there, and returns its name and size.
// It reads src twice and fails if the content changes.
func (s *Store) PutFrom(ctx context.Context, src io.ReadSeeker) (name string, size int64, err error) {
	sum := sha256.New()
	if _, err = src.Seek(0, io.SeekStart); err == nil {
		size, err = io.Copy(sum, src)
	}
	if err != nil {
		return "", 0, fmt.Errorf("put blob: %w", err)
	}
	w := writer{Store: s, digest: [sha256.Size]byte(sum.Sum(nil)), size: size, src: src}
	w.name = hex.EncodeToString(w.digest[:])
	if err := w.store(ctx); err != nil {
		if api.IsFull(err) {
			err = w.api.Explain(ctx, w.names.BlobStream(), err)
		}
		return w.name, size, fmt.Errorf("put blob %s: %w", w.name, err)
	}
	return w.name, size, nil
}

// writer stores one blob.
type writer struct {
	*Store

	name   string
	digest [sha256.Size]byte
	size   int64
	src    io.ReadSeeker

	started   bool
	first     uint64 // the last description when store started; 0: none
	last      uint64 // the last description now
	present   bool   // the last description describes the blob
	confirmed bool   // and was written since store started
	body      []byte // of the last description
}

// store writes the description after the chunks, so that readers never see part of a blob. A failed attempt
// leaves its chunks, under a name of their own, for the collector.
func (w *writer) store(ctx context.Context) error {
	for range maxRaces {
		err := w.look(ctx)
		switch {
		case err != nil || w.confirmed:
		case w.present:
			err = api.Patiently(ctx, func(ctx context.Context) error { return w.describe(ctx, w.name, w.body, w.last) })
		default:
			err = api.Patiently(ctx, w.write)
		}
		if !api.IsConflict(err) { // otherwise another process described or retired it
			return err
		}
	}
	return errRace
}

// look reads the last description of the blob.
func (w *writer) look(ctx context.Context) error {
	m, err := w.api.Last(ctx, w.names.BlobStream(), w.names.BlobMeta(w.name))
	if err != nil && !errors.Is(err, api.ErrNoMessage) {
		return err
	}
	meta, ok := w.parse(m)
	w.last, w.body, w.present = m.Seq, m.Data, ok && meta.Size == uint64(w.size)
	w.confirmed = w.present && w.started && m.Seq > w.first
	if !w.started {
		w.started, w.first = true, m.Seq
	}
	return nil
}

func (w *writer) write(ctx context.Context) error {
	if _, err := w.src.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read again: %w", err)
	}
	meta := Meta{
		Name: w.name, Bucket: w.names.BlobBucket(), NUID: rand.Text(),
		Size: uint64(w.size), Digest: digestText(w.digest), Options: &options{ChunkSize: chunkSize},
	}
	sum := sha256.New()
	chunks, err := w.api.PublishChunks(ctx, w.names.BlobChunks(meta.NUID), io.TeeReader(w.src, sum), chunkSize)
	if err != nil {
		return err
	}
	if [sha256.Size]byte(sum.Sum(nil)) != w.digest {
		return errChanged
	}
	meta.Chunks, meta.ModTime = chunks, time.Now().UTC()
	body, err := json.Marshal(meta)
	if err != nil {
		return fmt.Errorf("describe: %w", err)
	}
	return w.describe(ctx, w.name, body, w.last)
}

// Renew renews the blobs that data names, if they are in the store, by writing their descriptions again.
func (s *Store) Renew(ctx context.Context, data []byte) error {
	done := make(map[string]bool)
	for name := range Names(data) {
		if id := string(name); !done[id] {
			done[id] = true
			if err := s.renew(ctx, id); err != nil {
				return fmt.Errorf("renew blob %s: %w", id, s.api.Explain(ctx, s.names.BlobStream(), err))
			}
		}
	}
	return nil
}

func (s *Store) renew(ctx context.Context, name string) error {
	for range maxRaces {
		m, err := s.api.Last(ctx, s.names.BlobStream(), s.names.BlobMeta(name))
		if _, there := s.parse(m); errors.Is(err, api.ErrNoMessage) || err == nil && !there {
			return nil
		}
		if err == nil {
			err = api.Patiently(ctx, func(ctx context.Context) error { return s.describe(ctx, name, m.Data, m.Seq) })
		}
		if !api.IsConflict(err) { // otherwise another process described or retired it
			return err
		}
	}
	return errRace
}

// describe writes a description that must directly follow the last one.
func (s *Store) describe(ctx context.Context, name string, body []byte, last uint64) error {
	_, err := s.api.Publish(ctx, &nats.Msg{
		Subject: s.names.BlobMeta(name), Data: body,
		Header: nats.Header{layout.HeaderGuard: {strconv.FormatUint(last, 10)}},
	})
	return err
}
