// Package commands defines what clients and workers can send to a session, and its
// wire format.
//
// There are two sorts of commands. An ask (SubmitInput, Cancel, ResolveApproval, …)
// may be refused with a [*Rejection]. [Validate] refuses what no session accepts; the
// rest depends on the state of the session. A report (ReportReply, ReportResult, …)
// describes the outcome of an effect. It is never refused, and a late or repeated one
// has no effect.
//
// The ID of an [Envelope] makes a command idempotent: the core ignores ids that it
// has handled. The core reads no clock; At is the time at which the driver handles
// the command.
package commands
