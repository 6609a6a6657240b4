package api

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// parseAck reads the answer to a publish.
func parseAck(msg *nats.Msg) (uint64, error) {
	if seq, ok := ackSeq(msg.Data); ok {
		return seq, nil
	}
	if len(msg.Data) == 0 && msg.Header.Get("Status") == "503" {
		return 0, nats.ErrNoResponders
	}
	var ack struct {
		Stream string              `json:"stream"`
		Seq    uint64              `json:"seq"`
		Err    *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(msg.Data, &ack); err != nil {
		return 0, fmt.Errorf("answer to a publish: %w", err)
	}
	if ack.Err != nil {
		return 0, ack.Err
	}
	if ack.Stream == "" || ack.Seq == 0 {
		return 0, fmt.Errorf("answer to a publish is not an acknowledgment: %.60q", msg.Data)
	}
	return ack.Seq, nil
}

// ackSeq parses the usual acknowledgment, {"stream":"S","seq":7}, by hand, since appends are the hot
// path. It leaves everything else to the JSON decoder.
func ackSeq(data []byte) (uint64, bool) {
	before, digits, ok := bytes.Cut(data, []byte(`,"seq":`))
	if !ok || !bytes.HasPrefix(before, []byte(`{"stream":"`)) || bytes.LastIndexByte(before, '{') != 0 {
		return 0, false // not an acknowledgment, or one with an error
	}
	if len(digits) < 2 || len(digits) > 20 || digits[len(digits)-1] != '}' {
		return 0, false
	}
	var seq uint64
	for _, c := range digits[:len(digits)-1] {
		if c < '0' || c > '9' {
			return 0, false
		}
		seq = seq*10 + uint64(c-'0')
	}
	return seq, seq > 0
}
