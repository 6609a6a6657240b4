// Package stream projects a session, its journal and the live fragments of replies, onto one sequence of
// events that a reader can leave and join anywhere.
//
// The one idea: a reader's place is an entry, and an offset into the reply that is in flight after that entry.
// Both follow from the journal alone. Offsets count what a reply consists of, part by part: one for the
// beginning of a part, one for each byte of its text or arguments, and one for its end. Live fragments and the
// pieces that are cut from the recorded reply have the same offsets, wherever they are cut. So a fragment that
// is lost, late or false costs nothing but time: its text comes with the recorded reply.
//
//   - Every entry comes once, in order.
//   - The pieces of a reply come before the entry that records it, and add up to exactly its parts.
//   - If an attempt fails after pieces of it were sent, or its reply is recorded otherwise, a void event says
//     so before anything else of that turn.
//   - The events after a [Cursor] do not depend on the process that continues there.
//
// A [Stream] is a pure state machine, owned by one goroutine. Protocols are projections of its events.
package stream
