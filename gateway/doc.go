// Package gateway serves a deployment over HTTP: an API for sessions and their approvals, and streams that
// resume exactly.
//
// The one idea: a gateway has no state, but for the sessions of MCP's older clients. It sends commands and reads journals, as package client does, so any
// number of gateways serve the same deployment, and a client continues at any of them. A stream's place is in the
// ID of its last event (package gateway/internal/stream); whether a command was handled is in the journal, under
// the ID that the client gave it as Idempotency-Key.
//
// [New] returns the [Gateway], an http.Handler; [Gateway.Serve] serves it with limits of time and size. It
// knows people by tokens ([people]) and records their names as senders. Every error is a problem
// (package gateway/internal/problem), which says what to do.
//
// Other protocols are projections of the same streams: they mount on the same mux and use person, see and follow.
package gateway
