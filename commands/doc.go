// Package commands holds what a session may be asked and what may be reported to
// it, and how that travels.
//
// Commands have two tempers. An ask (SubmitInput, Cancel, ResolveApproval, …) may
// be refused. A report (ReportReply, ReportResult, …) says what came of an effect;
// it is never refused, and one that is late or repeated decides to nothing.
//
// An [Envelope] names the command's identity; idempotency is that id, checked by
// the core against the causes it has handled. The core reads no clock: At is when
// the driver took the command in hand.
package commands
