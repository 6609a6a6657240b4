package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/turnlog/turnlog/content"
)

// retireBlob takes a blob away unless it was described again behind last: then
// somebody wants it. It returns the names of its chunks, which are to be removed then;
// if that is not done, the collector finds them later.
func (c *Cell) retireBlob(ctx context.Context, name string, last uint64) (chunks []string, gone bool, err error) {
	body, err := json.Marshal(blobMeta{Name: name, Bucket: c.names.blobBucket(), ModTime: time.Now().UTC(), Deleted: true})
	if err != nil {
		return nil, false, fmt.Errorf("retire blob %s: %w", name, err)
	}
	err = c.describeBlob(ctx, name, body, last)
	if isConflict(err) {
		return nil, false, nil
	}
	if err == nil {
		chunks, err = c.clearBlob(ctx, name)
	}
	if err != nil {
		return nil, false, fmt.Errorf("retire blob %s: %w", name, c.explain(ctx, c.names.blobStream(), err))
	}
	return chunks, true, nil
}

// clearBlob removes the last word that a blob is retired, and what stands before it:
// whoever stores the blob now is guarded by that word, and looks again.
func (c *Cell) clearBlob(ctx context.Context, name string) (chunks []string, err error) {
	stream, subject := c.names.blobStream(), c.names.blobMeta(name)
	var before []string
	end := uint64(0)
	for seq := uint64(0); ; {
		m, err := c.leaderNext(ctx, stream, subject, seq)
		if errors.Is(err, errNoMessage) {
			break
		}
		if err != nil {
			return nil, err
		}
		seq = m.Seq + 1
		var meta blobMeta
		switch {
		case m.Aimed || json.Unmarshal(m.Data, &meta) != nil:
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
	return chunks, c.purge(ctx, stream, subject, end+1)
}

// dropBlob removes the blob of a snapshot that was replaced, the chunks of its first
// description: others may name what is not theirs. What it cannot remove is left to
// the collector, so there is nothing to report.
func (c *Cell) dropBlob(ctx context.Context, name string) {
	m, err := c.leaderLast(ctx, c.names.blobStream(), c.names.blobMeta(name))
	if err != nil {
		return
	}
	if chunks, gone, err := c.retireBlob(ctx, name, m.Seq); err == nil && gone && len(chunks) > 0 && content.IsToken(chunks[0]) {
		_ = c.purge(ctx, c.names.blobStream(), c.names.blobChunks(chunks[0]), 0)
	}
}
