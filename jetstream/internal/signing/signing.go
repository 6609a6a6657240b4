// Package signing signs what a connection writes to a cell, and checks what drivers sent to workers.
//
// A signature is a header. Without a key, no signature is computed. Package audit/statement defines what is
// signed.
package signing

import (
	"encoding/base64"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/statement"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// Keys are the key that a connection signs with, and the directory that it checks signatures against.
type Keys struct {
	Cell      string
	Own       *keys.Signer           // nil: nothing is signed
	Directory func() *keys.Directory // checks what drivers send; nil: not checked
}

func (k Keys) sign(h nats.Header, text func() []byte) {
	if k.Own != nil {
		h[layout.HeaderSignature] = []string{k.Own.Sign(text()).String()}
	}
}

// Entry signs an entry of a session and adds the headers.
func (k Keys) Entry(h nats.Header, s content.SessionID, head journal.Head) {
	k.sign(h, func() []byte { return statement.Entry(k.Cell, s, head.Seq, head.Hash) })
}

// Command signs a command and sets its time. The result of a call also has its own signature, for the
// journal.
func (k Keys) Command(h nats.Header, env *commands.Envelope) {
	if r, ok := env.Command.(commands.ReportResult); k.Own == nil || ok && r.Signature != nil {
		return
	}
	env.At = content.TimeOf(time.Now())
	k.sign(h, func() []byte { return statement.Command(k.Cell, *env) })
}

// Result returns the signed result of a call.
func (k Keys) Result(x task.Task, r commands.ReportResult) commands.ReportResult {
	if k.Own == nil {
		return r
	}
	r.SignedAt = content.TimeOf(time.Now())
	r.Signature = new(k.Own.Sign(statement.Result(k.Cell, statement.Call{
		Session: x.Session, Call: x.Call, Place: x.Place, Attempt: x.Attempt, Tool: x.Tool, Input: tool.Digest(x.Input),
	}, r.SignedAt, statement.ResultDigest(r.Outcome.Result))))
	return r
}

// Schedule returns the headers of a schedule's messages: its definition, and the signature of the user who
// added it.
func Schedule(definition []byte, s content.Signature) nats.Header {
	h := nats.Header{}
	if !s.IsZero() {
		h.Set(layout.HeaderSchedule, base64.StdEncoding.EncodeToString(definition))
		h.Set(layout.HeaderSignature, s.String())
	}
	return h
}

// Task signs a task with its ticket.
func (k Keys) Task(msg *nats.Msg, body []byte) {
	k.sign(msg.Header, func() []byte { return k.task(msg, body) })
}

func (k Keys) task(msg *nats.Msg, body []byte) []byte {
	return statement.Task(k.Cell, msg.Subject, msg.Header.Get(layout.HeaderTicket), body)
}

// Stop signs a message that tells workers to stop a call.
func (k Keys) Stop(msg *nats.Msg) {
	k.sign(msg.Header, func() []byte { return statement.Stop(k.Cell, msg.Subject, msg.Data) })
}

// CheckTask returns task.ErrForged for a task that had to be signed by a driver and was not.
func (k Keys) CheckTask(msg *nats.Msg, body []byte, stored time.Time) error {
	if err := k.check(msg, k.task(msg, body), stored); err != nil {
		return fmt.Errorf("%w: %w", task.ErrForged, err)
	}
	return nil
}

// staleStop is the age at which a signed Stop no longer counts: someone else may have sent it again.
const staleStop = 5 * time.Minute

// MayStop reports whether a message that was sent at that time may stop a call now.
func (k Keys) MayStop(msg *nats.Msg, sent content.Time) bool {
	now := time.Now()
	fresh := k.Directory == nil || msg.Header.Get(layout.HeaderSignature) == "" || now.Sub(sent.Std()).Abs() <= staleStop
	return fresh && k.check(msg, statement.Stop(k.Cell, msg.Subject, msg.Data), now) == nil
}

func (k Keys) check(msg *nats.Msg, text []byte, at time.Time) error {
	if k.Directory == nil {
		return nil
	}
	return k.Directory().CheckIfSigned(layout.SignatureOf(msg.Header), text, content.TimeOf(at), keys.Driver)
}
