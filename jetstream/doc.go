// Package jetstream keeps Turnlog's contracts in NATS JetStream: the journal, the
// inbox of commands, run tokens, task queues, timers, the catalog, blobs and
// snapshots. It is the only package that speaks the JetStream API.
//
// The one idea: one [Cell] is one set of streams for any number of sessions; a
// session is a subject, never a stream and never a consumer. What each stream and
// subject is for, and who may write it, is in subjects.md, which a test compares
// with this package.
//
// Who owns what: the journal is written by the session's driver alone, guarded by
// the sequence of its last entry on exactly its own subject; commands are written
// by anybody whose lane it is; below the live prefix nobody but the server
// publishes. NATS error codes are read in errors.go and nowhere else.
package jetstream
