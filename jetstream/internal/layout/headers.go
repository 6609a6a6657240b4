package layout

// Headers of a cell's messages. Those of an entry repeat what its payload says, for readers
// that do not decode it; only the guard means something to the server.
const (
	HeaderGuard   = "Nats-Expected-Last-Subject-Sequence"
	HeaderSeq     = "Turnlog-Seq"
	HeaderHash    = "Turnlog-Hash"
	HeaderPrev    = "Turnlog-Prev"
	HeaderKinds   = "Turnlog-Kinds"
	HeaderVersion = "Turnlog-Version"
	HeaderTrace   = "traceparent"

	// HeaderBlob names the SHA-256 of a payload that is in the object store. The
	// message itself is empty then.
	HeaderBlob = "Turnlog-Blob"

	// HeaderTicket carries the ticket of a dispatch, with the task and with the reports
	// about it. It is not in their bodies: large ones are blobs, which every worker
	// reads.
	HeaderTicket = "Turnlog-Ticket"

	// HeaderOperation marks the message that stands for a deleted key.
	HeaderOperation = "KV-Operation"
)
