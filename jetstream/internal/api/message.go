package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// Message is a message in a stream.
type Message struct {
	Subject string
	Seq     uint64
	Time    time.Time
	Header  nats.Header
	Data    []byte
	Spoofed bool // see ErrSpoofed
}

// ErrSpoofed is returned for a message that was not published by a permitted sender.
//
// A server sends its reply to any subject that the request names, even one that the requester may not
// publish to, and streams store the reply like any other message. So a user who may store a message and
// read it directly can place it on any subject of the cell. Such a reply has a header that names the stream
// it was read from. No other message of a cell has one, so readers skip messages that do.
var ErrSpoofed = errors.New("the message is a server reply that a requester directed to this subject")

// IsSpoofed reports whether a message, as its sender sent it, is such a reply.
func IsSpoofed(h nats.Header) bool { return len(h[jetstream.StreamHeader]) > 0 }

// IsSpoofedCopy is IsSpoofed for a copy to which the server has added its own headers.
func IsSpoofedCopy(h nats.Header) bool { return len(h[jetstream.StreamHeader]) > 1 }

// fromServer returns the server's value of a header: the last one, if the sender has set the header too.
func fromServer(h nats.Header, key string) string {
	if all := h[key]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// HeaderUint returns the number in a header that the server set, or 0 if there is none.
func HeaderUint(h nats.Header, key string) uint64 {
	n, err := strconv.ParseUint(fromServer(h, key), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// HeaderTime returns when the server stored the message of a copy, or the zero time if the copy does not
// say.
func HeaderTime(h nats.Header) time.Time {
	at, err := time.Parse(time.RFC3339Nano, fromServer(h, jetstream.TimeStampHeaer))
	if err != nil {
		return time.Time{}
	}
	return at
}

// lateExpiry extends the time to live of keys, because clocks differ.
const lateExpiry = time.Minute

// Gone reports whether a message is a deleted or expired key. A killed server forgets to expire its keys,
// so they reappear when it restarts.
func (m Message) Gone() bool {
	ttl, err := time.ParseDuration(m.Header.Get(jetstream.MsgTTLHeader))
	return IsMarker(m.Header) || err == nil && Expired(m.Time, ttl)
}

// Expired reports whether a key that was written at a time has expired.
func Expired(written time.Time, ttl time.Duration) bool { return time.Since(written) > ttl+lateExpiry }

// IsMarker reports whether a message marks a deleted or expired key.
func IsMarker(h nats.Header) bool {
	return h.Get(layout.HeaderOperation) != "" || h.Get(jetstream.MarkerReasonHeader) != ""
}

// parseStored reads the answer to a read at the leader.
func parseStored(data []byte) (Message, error) {
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
		return Message{}, fmt.Errorf("stored message: %w", err)
	}
	m := answer.Message
	out := Message{Subject: m.Subject, Seq: m.Seq, Time: m.Time, Data: m.Data}
	if len(m.Header) > 0 {
		h, err := nats.DecodeHeadersMsg(m.Header)
		if err != nil {
			return Message{}, fmt.Errorf("header of stored message %d: %w", m.Seq, err)
		}
		out.Header, out.Spoofed = h, IsSpoofed(h)
	}
	return out, nil
}

// parseCopy reads a copy that the server sent, directly or live. before is the sequence of the previous
// message, or 0.
func parseCopy(msg *nats.Msg) (m Message, before uint64, err error) {
	m = Message{
		Subject: fromServer(msg.Header, jetstream.SubjectHeader),
		Seq:     HeaderUint(msg.Header, jetstream.SequenceHeader),
		Header:  msg.Header,
		Data:    msg.Data,
		Spoofed: IsSpoofedCopy(msg.Header),
		Time:    HeaderTime(msg.Header),
	}
	if m.Time.IsZero() || m.Seq == 0 {
		return Message{}, 0, errors.New("copy of a message without sequence or time")
	}
	return m, HeaderUint(msg.Header, jetstream.LastSequenceHeader), nil
}

// plainAck parses {"stream":"NAME","seq":N}, the answer to nearly every publish, without a JSON decoder.
func plainAck(data []byte) (seq uint64, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"stream":"`))
	name, rest, found := bytes.Cut(rest, []byte(`","seq":`))
	number, ends := bytes.CutSuffix(rest, []byte("}"))
	if !ok || !found || !ends || len(name) == 0 || bytes.ContainsAny(name, `"\\`) {
		return 0, false
	}
	seq, err := strconv.ParseUint(string(number), 10, 64)
	return seq, err == nil && seq > 0
}

// parseAck reads the answer to a publish.
func parseAck(msg *nats.Msg) (uint64, error) {
	if len(msg.Data) == 0 && msg.Header.Get("Status") == "503" {
		return 0, nats.ErrNoResponders
	}
	if seq, ok := plainAck(msg.Data); ok {
		return seq, nil
	}
	var ack struct {
		Stream string              `json:"stream"`
		Seq    uint64              `json:"seq"`
		Err    *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(msg.Data, &ack); {
	case err != nil:
		return 0, fmt.Errorf("answer to a publish: %w", err)
	case ack.Err != nil:
		return 0, ack.Err
	case ack.Stream == "" || ack.Seq == 0:
		return 0, fmt.Errorf("answer to a publish is not an acknowledgment: %.60q", msg.Data)
	}
	return ack.Seq, nil
}
