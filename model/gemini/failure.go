package gemini

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

type statusError struct {
	Code    int              `json:"code"`
	Status  string           `json:"status"`
	Message string           `json:"message"`
	Details []map[string]any `json:"details"`
}

// statusFailure translates the error of a response. Errors from gateways may have another form.
func statusFailure(s *provider.StatusError) *model.Error {
	var body struct{ Error statusError }
	if json.Unmarshal(s.Body, &body) != nil {
		body.Error.Message = string(s.Body)
	}
	body.Error.Code = cmp.Or(body.Error.Code, s.Status)
	return body.Error.failure()
}

// failure translates the error, which may come in the middle of a reply.
func (e statusError) failure() *model.Error {
	delay, _ := e.detail("type.googleapis.com/google.rpc.RetryInfo")["retryDelay"].(string)
	after, _ := time.ParseDuration(delay) // such as 34.07s, if any
	f := &model.Error{
		Class: provider.ClassOf(e.Code), Code: cmp.Or(e.Status, strconv.Itoa(e.Code)), RetryAfter: max(after, 0),
		Message: cmp.Or(e.Message, http.StatusText(e.Code), "the provider gave no reason"),
	}
	switch {
	case e.Code == http.StatusBadRequest && e.detail("type.googleapis.com/google.rpc.ErrorInfo")["reason"] == "API_KEY_INVALID":
		f.Class = content.ClassAuth
	case e.Code == http.StatusBadRequest && e.Status == "FAILED_PRECONDITION":
		f.Class = content.ClassBilling // no free tier in the caller's country
	case e.Code == http.StatusBadRequest && strings.Contains(e.Message, "exceeds the maximum number of tokens"):
		f.Class = content.ClassTooLong // the API has no code for it
	}
	return f
}

func (e statusError) detail(kind string) map[string]any {
	for _, d := range e.Details {
		if d["@type"] == kind {
			return d
		}
	}
	return nil
}
