package memo

import (
	"context"
	"time"
)

// Shared is an answer that many callers share until it is too old. It is safe for concurrent use.
type Shared[T any] struct {
	asking chan struct{} // holds one while the answer is asked for; guards the rest
	at     time.Time
	is     T
	err    error
}

// NewShared returns a Shared without an answer.
func NewShared[T any]() *Shared[T] { return &Shared[T]{asking: make(chan struct{}, 1)} }

// Get returns the last answer, or asks for a new one if that is older than age. An error is also an answer,
// unless it is the error of the caller's ctx.
func (s *Shared[T]) Get(ctx context.Context, age time.Duration, ask func(context.Context) (T, error)) (is T, err error) {
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return is, context.Cause(ctx)
	}
	if s.at.IsZero() || time.Since(s.at) >= age {
		answer, err := ask(ctx)
		if ctx.Err() != nil {
			return is, context.Cause(ctx)
		}
		s.is, s.err, s.at = answer, err, time.Now()
	}
	return s.is, s.err
}
