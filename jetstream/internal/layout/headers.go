package layout

import (
	"encoding/base64"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Headers of a cell's messages. Those of an entry repeat parts of its payload for readers that do not
// decode it. Only the guard means something to the server.
const (
	HeaderGuard = "Nats-Expected-Last-Subject-Sequence"
	HeaderSeq   = "Turnlog-Seq"
	HeaderHash  = "Turnlog-Hash"
	HeaderPrev  = "Turnlog-Prev"  // only if the payload is a blob
	HeaderKinds = "Turnlog-Kinds" // only on tombstones, and KindArriving
	HeaderTrace = "traceparent"

	// HeaderBaggage is what the sender of a command passes on to the tools of its turn, as W3C Baggage. It is
	// not in any journal.
	HeaderBaggage = "baggage"

	// HeaderStored is when another cell stored an entry that was moved here with its session, in RFC 3339.
	// The server's own time is then not that of the entry.
	HeaderStored = "Turnlog-Stored"

	// HeaderBlob is the SHA-256 of a payload in the object store. The message itself is empty.
	HeaderBlob = "Turnlog-Blob"

	// HeaderTicket is the ticket of a dispatch, on the task and on the reports about it. It is not in their
	// bodies: large bodies are blobs, which every worker may read.
	HeaderTicket = "Turnlog-Ticket"

	// HeaderHeld is, on a direct call, the node that wants to know whether a worker
	// has the call. On what the worker says about that, it is true or false.
	HeaderHeld = "Turnlog-Held"

	// HeaderSignature is the signature of what the message says: the ID of its key, a dot, and base64.
	HeaderSignature = "Turnlog-Sig"

	// HeaderSchedule is the schedule that sent a command, in base64. The signature is that of the schedule's
	// sender.
	HeaderSchedule = "Turnlog-Schedule"

	// HeaderSealed is the ID of the key that sealed the data of the message, or the blob that it names.
	HeaderSealed = "Turnlog-Sealed"

	// HeaderProcess tells apart the processes that have a node's name. It is on the answers to probes.
	HeaderProcess = "Turnlog-Process"

	// HeaderOperation marks a deleted key.
	HeaderOperation = "KV-Operation"
)

// KindArriving is the HeaderKinds of a message that is not an entry: a session is being moved here, and the
// messages after it are not complete.
const KindArriving = "arriving"

// Misdescribed returns the name of a header that contradicts the entry, or that programs may read
// differently because it appears twice or in another case. Programs that read only headers rely on them.
func Misdescribed(h nats.Header, e events.Entry) string {
	for name, values := range h {
		plain := textproto.CanonicalMIMEHeaderKey(name)
		if strings.HasPrefix(plain, "Turnlog-") && (name != plain || len(values) != 1) {
			return name
		}
	}
	for _, said := range [...]struct{ name, want string }{
		{HeaderSeq, strconv.FormatUint(e.Seq, 10)},
		{HeaderPrev, e.Prev.String()},
		{HeaderKinds, kindList(e.Events)},
	} {
		if got := h.Get(said.name); got != "" && got != said.want {
			return said.name
		}
	}
	return ""
}

// BaggageHeader returns the headers of a command that passes on a baggage; "" is none.
func BaggageHeader(baggage string) nats.Header {
	h := nats.Header{}
	if baggage != "" {
		h.Set(HeaderBaggage, baggage)
	}
	return h
}

// ScheduleOf returns the schedule in the headers of a message, or nil.
func ScheduleOf(h nats.Header) []byte {
	raw, err := base64.StdEncoding.DecodeString(h.Get(HeaderSchedule))
	if err != nil {
		return []byte{} // of no schedule
	}
	if len(raw) == 0 {
		return nil
	}
	return raw
}

// SignatureOf returns the signature in the headers of a message. A malformed one has no key.
func SignatureOf(h nats.Header) content.Signature {
	s, err := content.ParseSignature([]byte(h.Get(HeaderSignature)))
	if err != nil {
		s.Bytes = []byte(h.Get(HeaderSignature))
	}
	return s
}

// kindList lists the kinds in an entry, each once, as earlier releases described every entry.
func kindList(evs []events.Event) string {
	kinds := make([]string, 0, len(evs))
	for _, ev := range evs {
		if k := string(events.KindOf(ev)); !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	return strings.Join(kinds, ",")
}
