package gemini

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genai"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

// maxMessage bounds what is kept of a provider's words.
const maxMessage = 1000

// failure says what an exchange that failed means.
func (m *Model) failure(ctx context.Context, err error, noted *notes, used content.Usage) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	failed, own := errors.AsType[*model.Error](err)
	api, told := errors.AsType[genai.APIError](err)
	switch {
	case own:
	case told && noted.broken == nil:
		if api.Code == 0 { // the body has an error, but not the provider's own: a gateway's
			api.Code = noted.status
		}
		failed = apiFailure(api)
	case noted.broken != nil:
		failed = asModelError(provider.Broken(ctx, noted.broken))
	case errors.Is(err, errShape):
		failed = &model.Error{Class: content.ClassServer, Code: "malformed", Message: err.Error()}
	case unreadable(err):
		failed = &model.Error{Class: content.ClassServer, Code: "malformed", Message: fmt.Sprintf("%v: %v", errShape, err)}
	default:
		failed = asModelError(provider.Broken(ctx, err))
	}
	if failed.RetryAfter == 0 {
		failed.RetryAfter = noted.retryAfter
	}
	failed.Message = clip(scrub(failed.Message, m.cfg.APIKey), maxMessage)
	failed.Usage = used
	return failed
}

func asModelError(err error) *model.Error {
	if e, ok := errors.AsType[*model.Error](err); ok {
		return e
	}
	return &model.Error{Class: content.ClassNetwork, Message: err.Error()}
}

// unreadable reports whether the client could not read what came. It has no type
// for that; its words name the function that failed.
func unreadable(err error) bool {
	return strings.HasPrefix(err.Error(), "iterateResponseStream:") || strings.HasPrefix(err.Error(), "mapToStruct:")
}

func apiFailure(e genai.APIError) *model.Error {
	f := &model.Error{
		Class: provider.ClassOf(e.Code), Code: e.Status, Message: e.Message, RetryAfter: retryDelay(e.Details),
	}
	if status := strconv.Itoa(e.Code); e.Status == "" || strings.HasPrefix(e.Status, status) {
		f.Code = status // a line of HTTP, since the provider did not say
	}
	if f.Message == "" {
		f.Message = http.StatusText(e.Code)
	}
	if f.Message == "" {
		f.Message = "the provider gave no reason"
	}
	switch {
	case e.Code == http.StatusBadRequest && reason(e.Details) == "API_KEY_INVALID":
		f.Class = content.ClassAuth
	case e.Code == http.StatusBadRequest && e.Status == "FAILED_PRECONDITION":
		f.Class = content.ClassBilling // the free tier is not offered to this caller
	case e.Code == http.StatusBadRequest && strings.Contains(e.Message, "exceeds the maximum number of tokens"):
		f.Class = content.ClassTooLong // there is no code for it
	}
	return f
}

// Types of details, as google.rpc names them.
const (
	retryInfo = "type.googleapis.com/google.rpc.RetryInfo"
	errorInfo = "type.googleapis.com/google.rpc.ErrorInfo"
)

// retryDelay is how long the provider wants to be left alone, such as "34.07s".
func retryDelay(details []map[string]any) time.Duration {
	delay, _ := detail(details, retryInfo)["retryDelay"].(string)
	d, err := time.ParseDuration(delay)
	if err != nil {
		return 0
	}
	return max(d, 0)
}

func reason(details []map[string]any) string {
	text, _ := detail(details, errorInfo)["reason"].(string)
	return text
}

func detail(details []map[string]any, kind string) map[string]any {
	for _, d := range details {
		if d["@type"] == kind {
			return d
		}
	}
	return nil
}

// scrub takes the key out of a text.
func scrub(text, key string) string {
	if key == "" {
		return text
	}
	return strings.ReplaceAll(text, key, "[key]")
}

func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
