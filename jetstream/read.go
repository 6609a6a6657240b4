package jetstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The API's requests are made by hand: a read is then one message each way, and
// batches of direct gets need no consumer.
const (
	apiMsgGet       = "$JS.API.STREAM.MSG.GET."
	apiDirectGet    = "$JS.API.DIRECT.GET."
	apiStreamInfo   = "$JS.API.STREAM.INFO."
	apiConsumerInfo = "$JS.API.CONSUMER.INFO."
)

const (
	askTimeout   = time.Second      // one request of the API
	listTimeout  = 10 * time.Second // one page of a list, which may have megabytes
	batchTimeout = 5 * time.Second  // one batch
	patience     = 15 * time.Second // all attempts; an election takes up to half of it
	firstPause   = 20 * time.Millisecond
	lastPause    = 500 * time.Millisecond

	batchMessages = 1024
	batchBytes    = 4 << 20 // a batch comes without flow control, so it must fit the client's buffers
)

// errTorn says that messages of a batch did not arrive.
var errTorn = errors.New("batch of messages is torn")

// stored is a message as a stream keeps it.
type stored struct {
	Subject string
	Seq     uint64
	Time    time.Time
	Header  nats.Header
	Data    []byte
	Aimed   bool // see errAimed
}

// ask makes one request of the API and returns the answer's data. It is an error
// if the answer is one.
func (c *Cell) ask(ctx context.Context, subject string, body []byte) ([]byte, error) {
	return c.askWithin(ctx, askTimeout, subject, body)
}

func (c *Cell) askWithin(ctx context.Context, d time.Duration, subject string, body []byte) ([]byte, error) {
	ctx, done := c.answered(ctx, d, c.sending(subject))
	defer done()
	msg, err := c.nc.RequestWithContext(ctx, subject, body)
	if err != nil {
		return nil, whyEnded(ctx, err)
	}
	if !bytes.Contains(msg.Data, []byte(`"error":`)) {
		return msg.Data, nil // large answers are not parsed twice
	}
	var answer struct {
		Err *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return nil, fmt.Errorf("answer of the API: %w", err)
	}
	if answer.Err != nil {
		return nil, answer.Err
	}
	return msg.Data, nil
}

// patiently repeats something harmless for as long as its failure may pass:
// leaders are elected, connections are made again. It returns the last error, or
// the cause why ctx ended.
func patiently(ctx context.Context, do func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := do(bounded)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !isTransient(err):
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-bounded.Done():
			return fmt.Errorf("no success in %v: %w", patience, err)
		case <-time.After(pause):
		}
	}
}

// leaderLast returns the last message on a subject, which may hold wildcards, as
// the stream's leader knows it. It returns errNoMessage if there is none.
func (c *Cell) leaderLast(ctx context.Context, stream, subject string) (stored, error) {
	return c.leaderGet(ctx, stream, fmt.Appendf(nil, `{"last_by_subj":%q}`, subject))
}

// leaderNext returns the first message on a subject, which may hold wildcards, at
// or behind a sequence, as the stream's leader knows it. It returns errNoMessage
// if there is none.
func (c *Cell) leaderNext(ctx context.Context, stream, subject string, seq uint64) (stored, error) {
	return c.leaderGet(ctx, stream, fmt.Appendf(nil, `{"seq":%d,"next_by_subj":%q}`, max(seq, 1), subject))
}

func (c *Cell) leaderGet(ctx context.Context, stream string, query []byte) (stored, error) {
	var data []byte
	err := patiently(ctx, func(ctx context.Context) (err error) {
		data, err = c.ask(ctx, apiMsgGet+stream, query)
		return err
	})
	switch {
	case isNotFound(err):
		return stored{}, errNoMessage
	case err != nil:
		return stored{}, c.explain(ctx, stream, err)
	}
	return parseStored(data)
}

// explain says what a failed request to a stream means for the cell.
func (c *Cell) explain(ctx context.Context, stream string, err error) error {
	if isNoResponders(err) {
		// Nobody serves the stream, or the API as a whole; the API knows which.
		_, infoErr := c.ask(ctx, apiStreamInfo+stream, nil)
		if isNoResponders(infoErr) {
			return fmt.Errorf("%w: %w", ErrNoJetStream, infoErr)
		}
		if apiError(infoErr) != nil {
			err = infoErr
		}
	}
	switch {
	case isNoStream(err):
		return fmt.Errorf("%w: stream %s is missing: %w", ErrNotProvisioned, stream, err)
	case isNoJetStream(err):
		return fmt.Errorf("%w: %w", ErrNoJetStream, err)
	case isFull(err):
		return fmt.Errorf("stream %s: %w: %w", stream, ErrFull, err)
	}
	return fmt.Errorf("stream %s: %w", stream, err)
}

// parseStored reads the answer to a leader read.
func parseStored(data []byte) (stored, error) {
	var answer struct {
		Message struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return stored{}, fmt.Errorf("stored message: %w", err)
	}
	m := answer.Message
	out := stored{Subject: m.Subject, Seq: m.Seq, Time: m.Time, Data: m.Data}
	if len(m.Header) > 0 {
		h, err := nats.DecodeHeadersMsg(m.Header)
		if err != nil {
			return stored{}, fmt.Errorf("header of stored message %d: %w", m.Seq, err)
		}
		out.Header, out.Aimed = h, isAimed(h)
	}
	return out, nil
}

// batchGet yields the messages on a subject, which may hold wildcards, from a
// sequence on, in order, up to where the serving replica's stream ends. Any
// replica may serve it, so what was written a moment ago may be missing at the
// end, never in between.
func (c *Cell) batchGet(ctx context.Context, stream, subject string, seq uint64) iter.Seq2[stored, error] {
	return func(yield func(stored, error) bool) {
		b := batchReader{cell: c, stream: stream, subject: subject, next: max(seq, 1), more: true}
		defer b.close()
		for b.more {
			got, err := b.batch(ctx)
			if err != nil {
				yield(stored{}, c.explain(ctx, stream, err))
				return
			}
			for _, m := range got {
				if !yield(m, nil) {
					return
				}
			}
		}
	}
}

// readAll yields the messages on a subject, which may hold wildcards, from a sequence on,
// in order, and brings whatever was acknowledged before: what some replica has, which is
// fast, and then what the leader has behind that.
func (c *Cell) readAll(ctx context.Context, stream, subject string, seq uint64) iter.Seq2[stored, error] {
	return func(yield func(stored, error) bool) {
		for m, err := range c.batchGet(ctx, stream, subject, seq) {
			if !yield(m, err) || err != nil {
				return
			}
			seq = m.Seq + 1
		}
		for m, err := range c.leaderAll(ctx, stream, subject, seq) {
			if !yield(m, err) {
				return
			}
		}
	}
}

// leaderAll is readAll for a stream that only its leader serves, message by message.
func (c *Cell) leaderAll(ctx context.Context, stream, subject string, seq uint64) iter.Seq2[stored, error] {
	return func(yield func(stored, error) bool) {
		for {
			m, err := c.leaderNext(ctx, stream, subject, seq)
			if errors.Is(err, errNoMessage) || !yield(m, err) || err != nil {
				return
			}
			seq = m.Seq + 1
		}
	}
}

// batchReader asks for batch after batch, always one ahead of its user. It is
// owned by the iteration.
type batchReader struct {
	cell    *Cell
	stream  string
	subject string

	sub   *nats.Subscription // nil before the first batch and after a failed one
	come  chan *nats.Msg     // has room for a batch and its end
	asked bool               // a batch is on its way to sub
	last  sent               // for it
	next  uint64             // the sequence to go on from
	more  bool               // the last batch was not the end
}

func (b *batchReader) close() {
	if b.sub != nil {
		_ = b.sub.Unsubscribe() // the connection may be gone
		b.sub, b.asked = nil, false
	}
}

// batch returns the next batch, and asks for the one behind it.
func (b *batchReader) batch(ctx context.Context) ([]stored, error) {
	var got []stored
	err := patiently(ctx, func(ctx context.Context) error {
		err := b.ask()
		if err == nil {
			got, err = b.receive(ctx, got)
		}
		if err == nil && b.more {
			err = b.ask()
		}
		if err != nil {
			b.close() // what is still to come must not be taken for the next batch
			return fmt.Errorf("batch of %s: %w", b.subject, err)
		}
		return nil
	})
	return got, err
}

// ask asks for a batch unless one is on its way.
func (b *batchReader) ask() (err error) {
	if b.asked {
		return nil
	}
	if b.sub == nil {
		b.come = make(chan *nats.Msg, batchMessages+1)
		if b.sub, err = b.cell.nc.ChanSubscribe(b.cell.nc.NewInbox(), b.come); err != nil {
			return err //nolint:wrapcheck // batch names itself
		}
	}
	query := fmt.Appendf(nil, `{"seq":%d,"next_by_subj":%q,"batch":%d,"max_bytes":%d}`,
		b.next, b.subject, batchMessages, batchBytes)
	b.asked, b.last = true, b.cell.sending(apiDirectGet+b.stream)
	return b.cell.nc.PublishRequest(apiDirectGet+b.stream, b.sub.Subject, query) //nolint:wrapcheck // as above
}

// receive adds what comes to what was got, up to the end of the batch. After an
// error the messages that were got stand, and are not asked for again.
func (b *batchReader) receive(ctx context.Context, got []stored) ([]stored, error) {
	ctx, done := b.cell.answered(ctx, batchTimeout, b.last)
	defer done()
	var last uint64 // of the messages of this batch
	for {
		var msg *nats.Msg
		select {
		case msg = <-b.come:
		case <-ctx.Done():
			return got, context.Cause(ctx)
		}
		if status := msg.Header.Get("Status"); status != "" && len(msg.Data) == 0 {
			b.asked = false
			return got, b.end(msg, status, last)
		}
		m, before, err := parseDirect(msg)
		if err != nil {
			return got, err
		}
		if before != last {
			return got, fmt.Errorf("%w: message %d follows %d, which is not there", errTorn, m.Seq, before)
		}
		last, b.next = m.Seq, m.Seq+1
		got = append(got, m)
	}
}

// end reads the message that ends a batch.
func (b *batchReader) end(msg *nats.Msg, status string, last uint64) error {
	switch status {
	case "404": // nothing from there on
		b.more = false
		return nil
	case "204":
		if headerUint(msg.Header, "Nats-Last-Sequence") != last {
			return fmt.Errorf("%w: its end is missing", errTorn)
		}
		b.more = headerUint(msg.Header, "Nats-Num-Pending") > 0
		return nil
	case "503":
		return nats.ErrNoResponders
	}
	return fmt.Errorf("status %s %s", status, msg.Header.Get("Description"))
}

// parseDirect reads a message of a batch and the sequence of the one before it in
// the batch, 0 for the first.
func parseDirect(msg *nats.Msg) (m stored, before uint64, err error) {
	m = stored{
		Subject: saidByServer(msg.Header, jetstream.SubjectHeader),
		Seq:     headerUint(msg.Header, jetstream.SequenceHeader),
		Header:  msg.Header,
		Data:    msg.Data,
		Aimed:   isAimedCopy(msg.Header),
	}
	if m.Time, err = time.Parse(time.RFC3339Nano, saidByServer(msg.Header, jetstream.TimeStampHeaer)); err != nil || m.Seq == 0 {
		return stored{}, 0, fmt.Errorf("message of a batch without sequence or time: %w", err)
	}
	return m, headerUint(msg.Header, "Nats-Last-Sequence"), nil
}

func headerUint(h nats.Header, key string) uint64 {
	n, err := strconv.ParseUint(saidByServer(h, key), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
