package jetstream

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Sessions lists the sessions that have a journal, sorted, but for those of which only
// the tombstone is left. It reads an index of the stream, and of the journals only
// those with a single entry.
func (j *Journal) Sessions(ctx context.Context) ([]content.SessionID, error) {
	n := j.cell.names
	subjects, err := j.cell.subjects(ctx, n.journalStream(), n.allJournals())
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var single []content.SessionID
	out := make([]content.SessionID, 0, len(subjects))
	for subject, entries := range subjects {
		if s := n.sessionOf(subject); entries > 1 {
			out = append(out, s)
		} else {
			single = append(single, s)
		}
	}
	live, err := j.undeleted(ctx, single)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	out = append(out, live...)
	slices.Sort(out)
	return out, nil
}

// lookAhead is how many sessions are looked at at once.
const lookAhead = 64

// undeleted leaves out the sessions whose last entry is the tombstone.
func (j *Journal) undeleted(ctx context.Context, all []content.SessionID) ([]content.SessionID, error) {
	n := j.cell.names
	var out []content.SessionID
	for some := range slices.Chunk(all, lookAhead) {
		gone := make([]bool, len(some))
		err := together(slices.Collect(indices(len(some))), func(i int) error {
			m, err := j.cell.leaderLast(ctx, n.journalStream(), n.journal(some[i]))
			gone[i] = isNotFound(err) || m.Header.Get(headerKinds) == string(events.KindSessionDeleted)
			if isNotFound(err) {
				return nil
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		for i, s := range some {
			if !gone[i] {
				out = append(out, s)
			}
		}
	}
	return out, nil
}

// streamInfo is what is needed of a stream's description.
type streamInfo struct {
	Total int `json:"total"` // of the subjects
	State struct {
		Subjects map[string]uint64 `json:"subjects"`
	} `json:"state"`
}

// subjects returns the subjects of a stream that a filter matches, with how many
// messages each holds, as the leader knows them.
func (c *Cell) subjects(ctx context.Context, stream, filter string) (map[string]uint64, error) {
	all := map[string]uint64{}
	for {
		query := fmt.Appendf(nil, `{"subjects_filter":%q,"offset":%d}`, filter, len(all))
		page, err := c.streamInfo(ctx, stream, query)
		if err != nil {
			return nil, err
		}
		before := len(all)
		maps.Copy(all, page.State.Subjects)
		if len(all) >= page.Total || len(all) == before {
			return all, nil
		}
	}
}

func (c *Cell) streamInfo(ctx context.Context, stream string, query []byte) (streamInfo, error) {
	var data []byte
	err := patiently(ctx, func(ctx context.Context) (err error) {
		data, err = c.askWithin(ctx, listTimeout, apiStreamInfo+stream, query)
		return err
	})
	if err != nil {
		return streamInfo{}, c.explain(ctx, stream, err)
	}
	var info streamInfo
	if err := json.Unmarshal(data, &info); err != nil {
		return streamInfo{}, fmt.Errorf("description of stream %s: %w", stream, err)
	}
	return info, nil
}
