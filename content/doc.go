// Package content is the vocabulary of a conversation: items and their parts,
// tool calls and their results, usage, and the identifiers of everything that
// happens in a session.
//
// The one idea: a transcript is a plain value. An [Item] is data that can be
// copied, compared, written to a journal and read back without loss; nothing in
// this package talks to the world, reads a clock or holds a lock, so every other
// package may depend on it.
//
// Identifiers are computed from their place wherever possible (turn 3, round 2,
// call 1), so that doing something twice is recognisable; see [TurnID],
// [PlaceOf] and [CallIDFor].
package content
