// Package events holds the facts of a session and how they are written down.
//
// The one idea: an [Entry] is one atomic append. It carries one or more events
// together with the command that caused them, and its bytes are frozen: what a
// release wrote, every later release reads. Fields are only ever added; the
// kinds and their golden bytes are in testdata.
//
// [Event] is sealed. Most events are journaled facts; three kinds
// ([ContentDelta], [ToolProgress], [Refused]) are live only and may be lost, and
// [StateChanged] is derived from the others and never stored; see [Journaled].
//
// An entry names its predecessor by hash, and its own hash is the SHA-256 of its
// exact bytes, so a journal is a chain that can be verified without a server
// (package audit).
package events
