package gemini

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genai"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

// statusFailure translates the error of a response. That of a gateway may have another
// form.
func statusFailure(s *provider.StatusError) *model.Error {
	var body struct{ Error genai.APIError }
	if json.Unmarshal(s.Body, &body) != nil {
		body.Error.Message = string(s.Body)
	}
	body.Error.Code = cmp.Or(body.Error.Code, s.Status)
	return apiFailure(body.Error)
}

// apiFailure translates an error of the API, which may come in the middle of a reply.
func apiFailure(e genai.APIError) *model.Error {
	f := &model.Error{
		Class: provider.ClassOf(e.Code), Code: cmp.Or(e.Status, strconv.Itoa(e.Code)), RetryAfter: retryDelay(e.Details),
		Message: cmp.Or(e.Message, http.StatusText(e.Code), "the provider gave no reason"),
	}
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
