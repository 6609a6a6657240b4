// Package api makes requests to the JetStream API: publishes, reads at a stream's leader, batches of
// direct gets, purges, and acknowledgments of delivered messages.
//
// A request is one message each way, built by hand. The client's own calls need consumers where batches of
// direct gets do not, and they hide which failures are certain. Only this package interprets the server's
// errors; see [IsUnknown] and [Patiently].
//
// A server does not answer a request that it denies, but reports the denial to the connection. Every wait
// in this package notices that within milliseconds and ends with a [*DeniedError].
package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/internal/pause"
)

// Subjects of the API; the name of a stream follows.
const (
	MsgGet       = "$JS.API.STREAM.MSG.GET."
	MsgDelete    = "$JS.API.STREAM.MSG.DELETE."
	DirectGet    = "$JS.API.DIRECT.GET."
	StreamInfo   = "$JS.API.STREAM.INFO."
	StreamPurge  = "$JS.API.STREAM.PURGE."
	ConsumerInfo = "$JS.API.CONSUMER.INFO."
	MsgNext      = "$JS.API.CONSUMER.MSG.NEXT."
)

// Answers to a delivered message, and the prefix of its reply subject.
const (
	Ack      = "+ACK"
	Nak      = "-NAK"
	Progress = "+WPI"
	Term     = "+TERM"

	AckPrefix = "$JS.ACK."
)

const (
	// AskTimeout bounds one request.
	AskTimeout = time.Second

	// CreateTimeout bounds one attempt to create a stream or a consumer, on which a cluster has to agree.
	CreateTimeout = 5 * time.Second

	// PublishTimeout bounds the wait for an acknowledgment. A newly elected leader answers within it; a
	// message without a leader is lost.
	PublishTimeout = 2 * time.Second

	// Patience bounds all attempts of [Patiently]; an election takes up to half of it.
	Patience = 15 * time.Second

	listTimeout   = 10 * time.Second // for one page of a list, which may be megabytes
	firstPause    = 20 * time.Millisecond
	inFlightPause = time.Millisecond // a write ends within a few of these
	lastPause     = 500 * time.Millisecond
)

// Conn makes requests over one connection. It is safe for concurrent use.
type Conn struct {
	nc      *nats.Conn
	answers answers
}

// New returns a Conn over nc. The caller closes nc.
func New(nc *nats.Conn) *Conn { return &Conn{nc: nc} }

// Ask makes one request and returns the data of its answer. An answer that is an error is
// returned as a *jetstream.APIError.
func (c *Conn) Ask(ctx context.Context, subject string, body []byte) ([]byte, error) {
	return c.askWithin(ctx, AskTimeout, subject, body)
}

func (c *Conn) askWithin(ctx context.Context, d time.Duration, subject string, body []byte) ([]byte, error) {
	msg, err := c.request(ctx, d, &nats.Msg{Subject: subject, Data: body})
	if err != nil {
		return nil, err
	}
	if !bytes.Contains(msg.Data, []byte(`"error":`)) {
		return msg.Data, nil // so that large answers are not parsed twice
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

// CreateStream creates a stream, or finds one with the same settings. The client's own call also decodes
// the description of the stream, which costs more than the request and is not needed.
func (c *Conn) CreateStream(ctx context.Context, config jetstream.StreamConfig) error {
	body, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	_, err = c.askWithin(ctx, CreateTimeout, "$JS.API.STREAM.CREATE."+config.Name, body)
	return err
}

// Publish sends a message to a stream and returns its sequence. It does not retry after an unknown
// outcome (see [IsUnknown]), since only the caller knows whether a second attempt is harmless.
//
// A replicated stream rejects a guarded write while another one is in flight on its subject, which may be
// the same writer's last one just after its acknowledgment. The rejected write has no effect, so Publish
// repeats it until the other write has ended and the guard can be compared.
func (c *Conn) Publish(ctx context.Context, msg *nats.Msg) (uint64, error) {
	end := time.Now().Add(PublishTimeout)
	for wait := inFlightPause; ; wait = min(2*wait, lastPause) {
		answer, err := c.request(ctx, time.Until(end), msg)
		if err != nil {
			return 0, err
		}
		seq, err := parseAck(answer)
		if !hasCode(err, jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
			return seq, err
		}
		if !pause.For(ctx, min(wait, time.Until(end))) || !time.Now().Before(end) {
			return 0, err
		}
	}
}

// Answer answers a delivered message once and waits until the server has received the answer.
func (c *Conn) Answer(ctx context.Context, reply, what string) error {
	_, err := c.Request(ctx, &nats.Msg{Subject: reply, Data: []byte(what)})
	return err
}

// Request sends a message and waits for its receiver's answer. If there is no receiver, it returns
// nats.ErrNoResponders at once. After other errors, the receiver may have the message or not.
func (c *Conn) Request(ctx context.Context, msg *nats.Msg) (answer *nats.Msg, err error) {
	return c.request(ctx, AskTimeout, msg)
}

// Confirm is Answer with retries, which are harmless for every answer except a nak.
func (c *Conn) Confirm(ctx context.Context, reply, what string) error {
	return Patiently(ctx, func(ctx context.Context) error { return c.Answer(ctx, reply, what) })
}

// Purge deletes the messages on a subject before a sequence; 0 means all.
func (c *Conn) Purge(ctx context.Context, stream, subject string, before uint64) error {
	query := fmt.Appendf(nil, `{"filter":%s,"seq":%d}`, quoted(subject), before)
	err := Patiently(ctx, func(ctx context.Context) error {
		_, err := c.Ask(ctx, StreamPurge+stream, query)
		return err
	})
	if err != nil {
		return c.Explain(ctx, stream, err)
	}
	return nil
}

// quoted returns a JSON string. A subject may contain any bytes that its sender chose.
func quoted(subject string) []byte {
	text, _ := json.Marshal(subject) //nolint:errchkjson // a string has no error
	return text
}

// Delete deletes one message. A missing message is not an error.
func (c *Conn) Delete(ctx context.Context, stream string, seq uint64) error {
	return c.delete(ctx, stream, fmt.Appendf(nil, `{"seq":%d,"no_erase":true}`, seq))
}

// Erase is Delete, but the server also overwrites the message in its files.
func (c *Conn) Erase(ctx context.Context, stream string, seq uint64) error {
	return c.delete(ctx, stream, fmt.Appendf(nil, `{"seq":%d}`, seq))
}

func (c *Conn) delete(ctx context.Context, stream string, query []byte) error {
	err := Patiently(ctx, func(ctx context.Context) error {
		_, err := c.Ask(ctx, MsgDelete+stream, query)
		return err
	})
	if isGone(err) {
		return nil
	}
	return err
}

// Patiently retries an operation while its failure may be temporary: a leader is being elected, or the
// connection is being re-established. The operation must be safe to repeat. Patiently returns the last
// error, or the cause of ctx's end.
func Patiently(ctx context.Context, do func(context.Context) error) error {
	err := do(ctx)
	if err == nil { // the common case, kept fast
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for wait := firstPause; ctx.Err() == nil && IsTransient(err); wait = min(2*wait, lastPause) {
		if pause.For(bounded, wait) {
			err = do(bounded)
		} else if ctx.Err() == nil {
			return fmt.Errorf("no success in %v: %w", Patience, err)
		}
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Together calls do for all items at once, so that their requests are pipelined, and returns the
// results in the order of the items.
func Together[T, R any](items []T, do func(T) R) []R {
	out, last := make([]R, len(items)), len(items)-1
	var wg sync.WaitGroup
	for i, item := range items {
		if i == last { // without a goroutine, whose stack would have to grow
			out[i] = do(item)
		} else {
			wg.Go(func() { out[i] = do(item) })
		}
	}
	wg.Wait()
	return out
}
