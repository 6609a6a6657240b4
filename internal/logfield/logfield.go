// Package logfield names the fields of log lines, so that one thing has one name
// in all of them and a search over logs finds it.
//
// Identifiers are types elsewhere; here any string or number type will do, so
// that the package imports none of them. It holds no logger and no state. A
// field that only one package logs does not belong here.
package logfield

import (
	"time"

	"go.uber.org/zap"
)

// Unsigned is what sequences and epochs are made of.
type Unsigned interface{ ~uint | ~uint32 | ~uint64 }

// Signed is what counters are made of.
type Signed interface{ ~int | ~int32 | ~int64 }

// Session is the session that a line is about.
func Session[T ~string](id T) zap.Field { return zap.String("session", string(id)) }

// Turn is the turn of the session.
func Turn[T ~string](id T) zap.Field { return zap.String("turn", string(id)) }

// Round is the round of the turn, counted from 1.
func Round[T Signed](n T) zap.Field { return zap.Int64("round", int64(n)) }

// Call is the tool call: its id, or its place where there is no id.
func Call[T ~string](id T) zap.Field { return zap.String("call", string(id)) }

// Attempt is the try of a model or tool call, counted from 1.
func Attempt[T Signed](n T) zap.Field { return zap.Int64("attempt", int64(n)) }

// Seq is a place in a journal or stream.
func Seq[T Unsigned](n T) zap.Field { return zap.Uint64("seq", uint64(n)) }

// Epoch counts the hosts that have claimed the session.
func Epoch[T Unsigned](n T) zap.Field { return zap.Uint64("epoch", uint64(n)) }

// Cause is the command that led to what the line tells.
func Cause[T ~string](id T) zap.Field { return zap.String("cause", string(id)) }

// Node is the process that hosts drivers.
func Node[T ~string](id T) zap.Field { return zap.String("node", string(id)) }

// Worker is the process that runs tools.
func Worker[T ~string](id T) zap.Field { return zap.String("worker", string(id)) }

// Queue is the class of tools that a task belongs to.
func Queue[T ~string](name T) zap.Field { return zap.String("queue", string(name)) }

// Tool is the name of the tool, never its arguments.
func Tool[T ~string](name T) zap.Field { return zap.String("tool", string(name)) }

// Subject is a NATS subject.
func Subject[T ~string](s T) zap.Field { return zap.String("subject", string(s)) }

// Stream is the name of a JetStream stream or bucket.
func Stream[T ~string](name T) zap.Field { return zap.String("stream", string(name)) }

// Elapsed is how long something took.
func Elapsed(d time.Duration) zap.Field { return zap.Duration("elapsed", d) }
