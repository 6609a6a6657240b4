// Package embedded runs a NATS server with JetStream inside the process.
//
// The one idea: the server is the real one, only without a process of its own.
// A one-shot command, a development setup, a test and a bubble of
// testing/synctest all talk to the same JetStream that a deployment talks to, so
// there is no second implementation to keep honest. It starts in a few
// milliseconds and needs no configuration.
//
// Who owns what: a [Server] owns its store directory from Start to Close, and a
// lock file in it says so to every other process; the operating system drops
// the lock when the owner is killed. It also owns the connections made with
// Connect, and closes them before the server goes. A [Cluster] owns its servers.
//
// What is guaranteed:
//   - at most one server of this package uses a store directory at a time; a
//     second one gets [ErrStoreInUse];
//   - with [WithSync] an acknowledged write has been synced to disk; without it
//     an acknowledged write survives the death of the process, not that of the
//     machine;
//   - without [WithStore] nothing is left on disk after Close;
//   - when Close returns, the server's goroutines have ended.
//
// What it does not do: a plain nats-server that is pointed at the same directory
// does not look at the lock file. A listener speaks to everyone who reaches it
// unless [WithUser] or [WithTLS] says otherwise.
//
// To test against it, start one per test; to do so in a synctest bubble, call
// [PrepareForSynctest] in TestMain, and use neither a listener nor a cluster
// there: sockets do not work in bubbles.
package embedded
