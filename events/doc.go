// Package events defines the facts of a session and their wire format.
//
// An [Entry] is one atomic append to a journal. It holds one or more events and the
// command that caused them. The format is frozen: every release reads the entries of
// all earlier ones. Fields are only added. testdata contains golden bytes of every
// kind.
//
// [Event] is sealed. Most events are stored in the journal. [ContentDelta],
// [ContentRepeated], [ToolProgress] and [Refused] are live only and may be lost; [StateChanged] is
// derived from other events. See [Journaled].
//
// The hash of an entry is the SHA-256 of its exact bytes, and every entry contains the
// hash of its predecessor. So a journal is a chain that package audit can verify
// without a server.
package events
