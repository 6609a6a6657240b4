// Package faultproxy is the network between a client and its servers, with faults: while it
// runs, connections can be cut, refused, slowed, held, or have one direction swallowed.
//
// A [Proxy] belongs to one client, whatever the number of its servers, so that a fault hits
// that client alone. A client in this process dials through [Proxy.Dial]; one in another
// process connects to an address of [Proxy.Listen].
//
// It delivers bytes in order or not at all. A connection that lost bytes never carries later
// ones: it is cut when swallowing ends. Bytes that were held arrive late. It does not parse
// what passes, so it cannot drop one message out of many.
package faultproxy
