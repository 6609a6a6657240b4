package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// Last returns the last message on a subject, which may contain wildcards, according to the stream's
// leader. It returns ErrNoMessage if there is none.
func (c *Conn) Last(ctx context.Context, stream, subject string) (Message, error) {
	return c.get(ctx, stream, fmt.Appendf(nil, `{"last_by_subj":%s}`, quoted(subject)))
}

// Next returns the first message at or after a sequence on a subject, which may contain wildcards,
// according to the stream's leader. It returns ErrNoMessage if there is none.
func (c *Conn) Next(ctx context.Context, stream, subject string, seq uint64) (Message, error) {
	return c.get(ctx, stream, fmt.Appendf(nil, `{"seq":%d,"next_by_subj":%s}`, max(seq, 1), quoted(subject)))
}

func (c *Conn) get(ctx context.Context, stream string, query []byte) (Message, error) {
	var data []byte
	err := Patiently(ctx, func(ctx context.Context) (err error) {
		data, err = c.Ask(ctx, MsgGet+stream, query)
		return err
	})
	switch {
	case IsNotFound(err):
		return Message{}, ErrNoMessage
	case err != nil:
		return Message{}, c.Explain(ctx, stream, err)
	}
	return parseStored(data)
}

// All yields the messages on a subject, which may contain wildcards, from a sequence on, in order. It
// includes everything that was acknowledged before the call: it reads from any replica, which is fast, and
// then reads the rest from the leader.
func (c *Conn) All(ctx context.Context, stream, subject string, seq uint64) iter.Seq2[Message, error] {
	return c.all(ctx, stream, subject, seq, false)
}

// Most is like All, but it reads from the leader only if the replica has nothing. So the newest messages
// may be missing. A caller that reads again from where Most ended misses none. If the messages are far apart
// and each has the guard with which it was stored, Most follows the guards; see back.
func (c *Conn) Most(ctx context.Context, stream, subject string, seq uint64) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		found := c.back(ctx, stream, subject, max(seq, 1))
		for _, m := range slices.Backward(found) {
			if !yield(m, nil) {
				return
			}
		}
		if len(found) == 0 {
			c.all(ctx, stream, subject, seq, true)(yield)
		}
	}
}

func (c *Conn) all(ctx context.Context, stream, subject string, seq uint64, most bool) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		from := seq
		for m, err := range c.Batches(ctx, stream, subject, seq) {
			if !yield(m, err) || err != nil {
				return
			}
			seq = m.Seq + 1
		}
		if most && seq > from {
			return
		}
		for m, err := range c.AllFromLeader(ctx, stream, subject, seq) {
			if !yield(m, err) {
				return
			}
		}
	}
}

// AllFromLeader is All for a stream that only its leader serves. It reads message by message.
func (c *Conn) AllFromLeader(ctx context.Context, stream, subject string, seq uint64) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for {
			m, err := c.Next(ctx, stream, subject, seq)
			if errors.Is(err, ErrNoMessage) || !yield(m, err) || err != nil {
				return
			}
			seq = m.Seq + 1
		}
	}
}

// Subjects returns the subjects of a stream that match a filter, with the number of messages on each,
// according to the leader.
func (c *Conn) Subjects(ctx context.Context, stream, filter string) (map[string]uint64, error) {
	all := map[string]uint64{}
	for {
		query := fmt.Appendf(nil, `{"subjects_filter":%s,"offset":%d}`, quoted(filter), len(all))
		var page struct {
			Total int `json:"total"` // number of subjects
			State struct {
				Subjects map[string]uint64 `json:"subjects"`
			} `json:"state"`
		}
		if err := c.describe(ctx, stream, StreamInfo+stream, query, &page); err != nil {
			return nil, err
		}
		before := len(all)
		maps.Copy(all, page.State.Subjects)
		if len(all) >= page.Total || len(all) == before {
			return all, nil
		}
	}
}

// ErrTooMany is returned instead of a list that would be too long. For a stream with millions of subjects,
// the server spends seconds on each page and answers nothing else meanwhile.
var ErrTooMany = errors.New("too many subjects to list")

// SubjectsUpTo is Subjects for a stream that has at most that many subjects, matching or not. Otherwise it
// returns ErrTooMany.
func (c *Conn) SubjectsUpTo(ctx context.Context, most int, stream, filter string) (map[string]uint64, error) {
	return NewLister(c, most).list(ctx, stream, filter)
}

// Lister lists subjects of streams repeatedly. If a stream has not changed, it only asks for the stream's
// end. One goroutine owns it.
type Lister struct {
	Ends map[string]StreamEnd // of the streams, just before they were last listed

	conn   *Conn
	most   int // see SubjectsUpTo
	listed map[string]map[string]uint64
}

// NewLister returns a lister of streams that have at most that many subjects.
func NewLister(c *Conn, most int) *Lister {
	return &Lister{Ends: make(map[string]StreamEnd), conn: c, most: most, listed: make(map[string]map[string]uint64)}
}

// List returns the subjects of a stream that match a filter, which must be the same in each call. If there
// are too many, it returns a sample.
func (l *Lister) List(ctx context.Context, stream, filter string, sample int) ([]string, error) {
	all, err := l.list(ctx, stream, filter)
	if errors.Is(err, ErrTooMany) {
		return l.conn.Sample(ctx, stream, filter, sample)
	}
	return slices.Collect(maps.Keys(all)), err
}

func (l *Lister) list(ctx context.Context, stream, filter string) (all map[string]uint64, err error) {
	before := l.Ends[stream]
	if l.Ends[stream], err = l.conn.End(ctx, stream); err != nil {
		return nil, err
	}
	switch end := l.Ends[stream]; {
	case end.Subjects > l.most:
		err = fmt.Errorf("stream %s: %w: %d", stream, ErrTooMany, end.Subjects)
	case end == before:
		return l.listed[stream], nil
	case end.Subjects > 0:
		all, err = l.conn.Subjects(ctx, stream, filter)
	}
	if l.listed[stream] = all; err != nil && !errors.Is(err, ErrTooMany) {
		delete(l.Ends, stream) // the list is not that of this end
	}
	return all, err
}

// Sample returns count subjects that match a filter, of messages near random places in the stream. The same
// subject may appear several times.
func (c *Conn) Sample(ctx context.Context, stream, filter string, count int) (subjects []string, err error) {
	var info struct {
		State struct {
			First uint64 `json:"first_seq"`
			Last  uint64 `json:"last_seq"`
		} `json:"state"`
	}
	if err := c.describe(ctx, stream, StreamInfo+stream, nil, &info); err != nil {
		return nil, err
	}
	for len(subjects) < count {
		m, err := c.Next(ctx, stream, filter, info.State.First+rand.Uint64N(max(info.State.Last, info.State.First)-info.State.First+1)) //nolint:gosec // no secret
		if errors.Is(err, ErrNoMessage) {
			m, err = c.Next(ctx, stream, filter, 1)
		}
		switch {
		case errors.Is(err, ErrNoMessage):
			return nil, nil
		case err != nil:
			return nil, err
		}
		subjects = append(subjects, m.Subject)
	}
	return subjects, nil
}

// StreamEnd is where a stream ends. If two are equal, the stream has the same messages.
type StreamEnd struct {
	Created  time.Time
	Last     uint64 // the last sequence assigned
	At       time.Time
	Messages uint64
	Subjects int // that have messages
}

// End returns where a stream ends.
func (c *Conn) End(ctx context.Context, stream string) (StreamEnd, error) {
	var info struct {
		Created time.Time `json:"created"`
		State   struct {
			Last     uint64    `json:"last_seq"`
			At       time.Time `json:"last_ts"`
			Messages uint64    `json:"messages"`
			Subjects int       `json:"num_subjects"`
		} `json:"state"`
	}
	err := c.describe(ctx, stream, StreamInfo+stream, nil, &info)
	return StreamEnd{info.Created, info.State.Last, info.State.At, info.State.Messages, info.State.Subjects}, err
}

// Consumer describes a durable consumer.
type Consumer struct {
	Config struct {
		AckWait       int64 `json:"ack_wait"`
		MaxAckPending int   `json:"max_ack_pending"`
	} `json:"config"`
	Delivered struct {
		StreamSeq   uint64 `json:"stream_seq"`
		ConsumerSeq uint64 `json:"consumer_seq"`
	} `json:"delivered"`
	Held int `json:"num_ack_pending"` // messages that were delivered but not acknowledged
}

// Consumer returns the description of a durable consumer.
func (c *Conn) Consumer(ctx context.Context, stream, name string) (info Consumer, err error) {
	err = c.describe(ctx, stream, ConsumerInfo+stream+"."+name, nil, &info)
	return info, err
}

func (c *Conn) describe(ctx context.Context, stream, subject string, query []byte, into any) error {
	var data []byte
	err := Patiently(ctx, func(ctx context.Context) (err error) {
		data, err = c.askWithin(ctx, listTimeout, subject, query)
		return err
	})
	if err != nil {
		return c.Explain(ctx, stream, err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("description of stream %s: %w", stream, err)
	}
	return nil
}
