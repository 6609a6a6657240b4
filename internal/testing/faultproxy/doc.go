// Package faultproxy stands between a client and a server and makes the way between
// them go wrong: while it runs, connections can be cut, refused, slowed, held up, and
// made deaf or dumb in one direction.
//
// The one idea: a [Proxy] is one party's way to its servers, whatever their number, so
// that a fault hits that party and nobody else. A party in this process dials through
// [Proxy.Dial]; one in another process connects to an address of [Proxy.Listen].
//
// What is guaranteed: bytes arrive in order or not at all. A connection of which bytes
// were swallowed never carries others behind the gap: when swallowing ends it is cut,
// as a network that lost so much would have it. Bytes that were held arrive late, so
// what was sent before a pause takes effect behind it.
//
// What it does not do: it does not read what passes, so it cannot pick one message out
// of many; and it knows nothing of packets, so nothing is reordered or doubled.
package faultproxy
