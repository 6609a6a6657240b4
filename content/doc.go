// Package content defines the vocabulary of a conversation: items and their parts,
// tool calls and their results, usage, and identifiers.
//
// A transcript is a plain value. An [Item] can be copied, compared, written to a
// journal and read back without loss. Nothing in this package does I/O, reads a clock
// or takes a lock, so every other package may depend on it.
//
// Identifiers are derived from positions where possible (turn 3, round 2, call 1), so
// that repeated work is recognizable. See [TurnID], [PlaceOf] and [CallIDFor].
package content
