// Package stream projects the journal of a session and the live fragments of replies onto one sequence of
// events that a reader can leave and join at any place.
//
// A reader's place is an entry, and an offset into the reply in flight after that entry. Both follow from the
// journal alone. Offsets count the content of a reply, part by part: one for the beginning of a part, one for each
// byte of its text or arguments, and one for its end. Live fragments and pieces of the recorded reply have the
// same offsets, no matter where they are cut. So a fragment that is lost or late only costs time: its text comes
// with the recorded reply. False pieces are void then, because their checksum differs. The checksum does not
// protect against a worker that predicts the reply and forges a text with the same checksum.
//
//   - Each entry occurs once, in order.
//   - The pieces of a reply come before the entry that records it, and add up to exactly its parts.
//   - If an attempt fails after pieces of it were sent, or its reply is recorded otherwise, a void event says
//     so before anything else of that turn.
//   - The events after a [Cursor] do not depend on the process that continues there.
//
// A [Stream] is a pure state machine, owned by one goroutine. Protocols are projections of its events.
package stream
