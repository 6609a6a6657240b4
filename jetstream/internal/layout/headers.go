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
// decode it. Only the guard has a meaning for the server.
const (
	HeaderGuard = "Nats-Expected-Last-Subject-Sequence"
	HeaderSeq   = "Turnlog-Seq"
	HeaderHash  = "Turnlog-Hash"
	HeaderPrev  = "Turnlog-Prev"  // only if the payload is a blob
	HeaderKinds = "Turnlog-Kinds" // only of a tombstone, and KindArriving
	HeaderTrace = "traceparent"

	// HeaderBaggage has what the sender of a command passes on to the tools of its turn, as W3C Baggage. No journal has it.
	HeaderBaggage = "baggage"

	// HeaderStored is when another cell stored an entry, which was moved here with its session: RFC 3339. So the
	// server's time is not that of the entry.
	HeaderStored = "Turnlog-Stored"

	// HeaderBlob has the SHA-256 of a payload in the object store. The message itself is empty.
	HeaderBlob = "Turnlog-Blob"

	// HeaderTicket has the ticket of a dispatch, with the task and with the reports about it. It is not
	// in their bodies, because large bodies are blobs, which every worker may read.
	HeaderTicket = "Turnlog-Ticket"

	// HeaderSignature has the signature of what the message says: the id of its key, a dot, and base64.
	HeaderSignature = "Turnlog-Sig"

	// HeaderSchedule has the schedule that sent a command, in base64. The signature is of its sender.
	HeaderSchedule = "Turnlog-Schedule"

	// HeaderSealed has the ID of the key with which the data of the message, or the blob that it names, is sealed.
	HeaderSealed = "Turnlog-Sealed"

	// HeaderOperation marks a deleted key.
	HeaderOperation = "KV-Operation"
)

// KindArriving is the HeaderKinds of a message that is no entry: a session is being moved here, and what follows is not
// complete.
const KindArriving = "arriving"

// Misdescribed returns the name of a header that says something else than the entry, or that different programs may read
// differently: it is there twice, or in another case. Programs that read headers alone rely on them.
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

// Beside returns the headers of a command whose sender passes a baggage on, "" for none.
func Beside(baggage string) nats.Header {
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

// SignatureOf returns the signature in the headers of a message. One that is not of its form has no key.
func SignatureOf(h nats.Header) content.Signature {
	s, err := content.ParseSignature([]byte(h.Get(HeaderSignature)))
	if err != nil {
		s.Bytes = []byte(h.Get(HeaderSignature))
	}
	return s
}

// kindList returns the kinds in an entry, each once, as earlier releases described every entry.
func kindList(evs []events.Event) string {
	kinds := make([]string, 0, len(evs))
	for _, ev := range evs {
		if k := string(events.KindOf(ev)); !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	return strings.Join(kinds, ",")
}
