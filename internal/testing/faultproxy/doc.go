// Package faultproxy is a network with faults between a client and its servers: it can cut, refuse,
// slow or hold connections, or swallow one direction of them.
//
// A [Proxy] belongs to one client with any number of servers, so a fault affects only that client. A
// client in this process dials through [Proxy.Dial]. A client in another process connects to an address
// of [Proxy.Listen].
//
// It delivers bytes in order or not at all. A connection that lost bytes is cut when swallowing ends, so
// it never carries later ones. Held bytes arrive late. It does not parse the stream, so it cannot drop
// single messages.
package faultproxy
