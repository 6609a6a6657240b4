package layout

// Headers of a cell's messages. Those of an entry repeat parts of its payload for readers that do not
// decode it. Only the guard has a meaning for the server.
const (
	HeaderGuard = "Nats-Expected-Last-Subject-Sequence"
	HeaderSeq   = "Turnlog-Seq"
	HeaderHash  = "Turnlog-Hash"
	HeaderPrev  = "Turnlog-Prev"  // only if the payload is a blob
	HeaderKinds = "Turnlog-Kinds" // only of a tombstone
	HeaderTrace = "traceparent"

	// HeaderBlob has the SHA-256 of a payload in the object store. The message itself is empty.
	HeaderBlob = "Turnlog-Blob"

	// HeaderTicket has the ticket of a dispatch, with the task and with the reports about it. It is not
	// in their bodies, because large bodies are blobs, which every worker may read.
	HeaderTicket = "Turnlog-Ticket"

	// HeaderSignature has the signature of what the message says: the id of its key, a dot, and base64.
	HeaderSignature = "Turnlog-Sig"

	// HeaderOperation marks a deleted key.
	HeaderOperation = "KV-Operation"
)
