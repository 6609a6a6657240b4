package provider

import (
	"context"
	"net/http"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

// Errors of a client.
type (
	SilentError   = silentError
	RedirectError = redirectError
)

// CheckOptions checks the options of a configuration.
func CheckOptions(cfg any) error { return checkOptions(cfg) }

// Finish completes a reply.
func (r *Reply) Finish(reason content.FinishReason) (model.Reply, error) { return r.finish(reason) }

// Failure returns the error that a call ends with.
func Failure(ctx context.Context, err error, used content.Usage, key string) error {
	return failure(ctx, err, used, key)
}

// RetryAfter returns the delay in a header.
func RetryAfter(h http.Header, now time.Time) time.Duration { return retryAfter(h, now) }

// NewClient returns the client of an endpoint.
func NewClient(base *http.Client, silence time.Duration) *http.Client {
	return newClient(base, silence)
}
