package blob

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// Retire removes a blob unless it was renewed after the description with the sequence last. It returns the
// names of its chunks, which the caller should remove. A collector finds those that remain.
func (s *Store) Retire(ctx context.Context, name string, last uint64) (chunks []string, retired bool, err error) {
	body, err := json.Marshal(Meta{Name: name, Bucket: s.names.BlobBucket(), ModTime: time.Now().UTC(), Deleted: true})
	if err != nil {
		return nil, false, fmt.Errorf("retire blob %s: %w", name, err)
	}
	err = s.describe(ctx, name, body, last)
	if api.IsConflict(err) {
		return nil, false, nil
	}
	if err == nil {
		chunks, err = s.clear(ctx, name)
	}
	if err != nil {
		return nil, false, fmt.Errorf("retire blob %s: %w", name, s.api.Explain(ctx, s.names.BlobStream(), err))
	}
	return chunks, true, nil
}

// clear deletes the last description, which retires a blob, and everything before it. A concurrent writer
// of the blob conflicts with that description and looks again.
func (s *Store) clear(ctx context.Context, name string) (chunks []string, err error) {
	stream, subject := s.names.BlobStream(), s.names.BlobMeta(name)
	var before []string
	end := uint64(0)
	for m, err := range s.api.AllFromLeader(ctx, stream, subject, 0) {
		if err != nil {
			return nil, err
		}
		var meta Meta
		switch {
		case m.Spoofed || json.Unmarshal(m.Data, &meta) != nil:
		case meta.Deleted:
			end, chunks = m.Seq, append(chunks, before...)
			before = nil
		default:
			before = append(before, meta.NUID)
		}
	}
	if end == 0 {
		return nil, nil
	}
	return chunks, s.api.Purge(ctx, stream, subject, end+1)
}

// Drop removes a blob whose only user has replaced it, and the chunks of its first description. Later
// descriptions may name chunks of other blobs. The collector removes what is left.
func (s *Store) Drop(ctx context.Context, name string) {
	m, err := s.api.Last(ctx, s.names.BlobStream(), s.names.BlobMeta(name))
	if err != nil {
		return
	}
	chunks, retired, err := s.Retire(ctx, name, m.Seq)
	if err == nil && retired && len(chunks) > 0 && content.IsToken(chunks[0]) {
		_ = s.api.Purge(ctx, s.names.BlobStream(), s.names.BlobChunks(chunks[0]), 0)
	}
}
