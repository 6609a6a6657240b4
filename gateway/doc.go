// Package gateway serves a deployment over HTTP: an API for sessions and their approvals, and streams that
// resume exactly.
//
// The one idea: a gateway has no state, except the MCP sessions of older clients. It sends commands and reads journals
// through package client, so any number of gateways can serve the same deployment, and a client can continue at any of
// them. The ID of a stream's last event is its place (package gateway/internal/stream). The journal records whether a
// command was handled, under the ID that the client sent as Idempotency-Key.
//
// [New] returns the [Gateway], an http.Handler. [Gateway.Serve] serves it with limits on time and size. It identifies
// people by tokens or logins ([people]) and records their names as senders. Every error is a problem (package
// gateway/internal/problem), which says what to do.
//
// Other protocols are projections of the same streams. They use the same mux, and the functions person, see and from.
package gateway
