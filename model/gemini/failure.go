package gemini

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genai"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

// failure returns the error of a call that ended with err.
func (m *Model) failure(ctx context.Context, err error, x *exchange, used content.Usage) error {
	if x.broken != nil {
		err = x.broken
	} else if api, ok := errors.AsType[genai.APIError](err); ok {
		if api.Code == 0 { // a gateway's error, not the API's
			api.Code = x.status
		}
		err = apiFailure(api)
	} else if isUnreadable(err) {
		err = &model.Error{Class: content.ClassServer, Code: "malformed", Message: "malformed response: " + err.Error()}
	}
	err = provider.Failure(ctx, err, used, m.cfg.APIKey)
	if e, ok := errors.AsType[*model.Error](err); ok && e.RetryAfter == 0 && ctx.Err() == nil {
		e.RetryAfter = x.retryAfter
	}
	return err
}

// isUnreadable reports whether the SDK could not decode the response. Such errors
// have no type, but begin with the name of the function that failed.
func isUnreadable(err error) bool {
	return errors.Is(err, errPanic) || strings.HasPrefix(err.Error(), "iterateResponseStream:") || strings.HasPrefix(err.Error(), "mapToStruct:")
}

func apiFailure(e genai.APIError) *model.Error {
	f := &model.Error{
		Class: provider.ClassOf(e.Code), Code: e.Status, Message: e.Message, RetryAfter: retryDelay(e.Details),
	}
	if status := strconv.Itoa(e.Code); e.Status == "" || strings.HasPrefix(e.Status, status) {
		f.Code = status // the SDK used the HTTP status line
	}
	f.Message = cmp.Or(f.Message, http.StatusText(e.Code), "the provider gave no reason")
	switch {
	case e.Code == http.StatusBadRequest && reason(e.Details) == "API_KEY_INVALID":
		f.Class = content.ClassAuth
	case e.Code == http.StatusBadRequest && e.Status == "FAILED_PRECONDITION":
		f.Class = content.ClassBilling // no free tier in the caller's country
	case e.Code == http.StatusBadRequest && strings.Contains(e.Message, "exceeds the maximum number of tokens"):
		f.Class = content.ClassTooLong // it has no code
	}
	return f
}

// Types of error details.
const (
	retryInfo = "type.googleapis.com/google.rpc.RetryInfo"
	errorInfo = "type.googleapis.com/google.rpc.ErrorInfo"
)

// retryDelay returns the delay that the provider asks for, such as "34.07s".
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
