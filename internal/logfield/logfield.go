// Package logfield names the fields of log lines, so that one thing has one name in all of them
// and a search over logs finds it. A field that only one package logs does not belong here.
package logfield

import (
	"time"

	"go.uber.org/zap"
)

// Session is the session.
func Session[T ~string](id T) zap.Field { return zap.String("session", string(id)) }

// Call is the tool call: its id, or its place.
func Call[T ~string](id T) zap.Field { return zap.String("call", string(id)) }

// Attempt is the attempt at a tool call, counted from 1.
func Attempt(n int) zap.Field { return zap.Int("attempt", n) }

// Seq is a sequence in a journal or stream.
func Seq(n uint64) zap.Field { return zap.Uint64("seq", n) }

// Cause is the command that caused the event.
func Cause[T ~string](id T) zap.Field { return zap.String("cause", string(id)) }

// Node is the node that drives the session.
func Node[T ~string](id T) zap.Field { return zap.String("node", string(id)) }

// Queue is the task queue.
func Queue[T ~string](name T) zap.Field { return zap.String("queue", string(name)) }

// Tool is the name of the tool, never its arguments.
func Tool[T ~string](name T) zap.Field { return zap.String("tool", string(name)) }

// Elapsed is how long it took.
func Elapsed(d time.Duration) zap.Field { return zap.Duration("elapsed", d) }
