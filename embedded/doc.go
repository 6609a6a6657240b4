// Package embedded runs a NATS server with JetStream inside the process.
//
// It is the real server. A one-shot command, a development setup, a test and a testing/synctest
// bubble all use the JetStream that a deployment uses, so there is no second implementation to
// maintain. It starts in a few milliseconds and needs no configuration.
//
// A [Server] owns its store directory from Start to Close and holds a lock file in it, which the
// operating system releases if the process is killed. It also owns the connections made with
// Connect and closes them first.
//
// Guarantees:
//   - At most one server of this package uses a store directory at a time. A second one gets
//     [ErrStoreInUse].
//   - With [WithSync], an acknowledged write is on disk. Without it, an acknowledged write
//     survives a crash of the process but not of the machine.
//   - Without [WithStore], Close leaves nothing on disk.
//   - When Close returns, the server's goroutines have ended.
//
// A plain nats-server pointed at the same directory ignores the lock file. A listener accepts
// every client that can reach it unless [WithUser] or [WithSettings] restricts it.
//
// Tests start one server each. In a synctest bubble, call [PrepareForSynctest] in TestMain and use
// no listeners: sockets do not work in bubbles.
package embedded
