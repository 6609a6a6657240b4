package httptool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// maxAnswer limits the bytes of an answer.
const maxAnswer = 16 << 20

var errTooLong = fmt.Errorf("its answer has more than %d MiB", maxAnswer>>20)

// read reads the answer to a call.
func (e *endpoint) read(resp *http.Response, progress func(string, float64)) (tool.Output, error) {
	kind := resp.Header.Get("Content-Type")
	from := &limited{r: resp.Body, left: maxAnswer}
	if plain, _, err := mime.ParseMediaType(kind); err == nil && resp.StatusCode == http.StatusOK && plain == "application/x-ndjson" {
		return e.stream(from, progress)
	}
	data, err := io.ReadAll(from)
	if err != nil {
		return tool.Output{}, e.cut(err)
	}
	if resp.StatusCode/100 == 2 {
		return tool.Answer(kind, data), nil
	}
	return tool.Output{}, e.refused(resp, strings.TrimSpace(string(data)))
}

// cut returns the error of an answer that ended early.
func (e *endpoint) cut(err error) error {
	if errors.Is(err, errTooLong) {
		return tool.Failure(tool.CodeFailed, "%s: %v", e.service.cfg.Name, err)
	}
	return &tool.InterruptedError{Sent: true, Err: fmt.Errorf("%s: the answer is truncated: %w", e.service.cfg.Name, err)}
}

// refused returns the error for an answer that is not a success.
func (e *endpoint) refused(resp *http.Response, text string) error {
	name := e.service.cfg.Name
	why := fmt.Errorf("%s: %s", name, content.Clip(strings.TrimSuffix(resp.Status+": "+text, ": "), 2000))
	switch code := resp.StatusCode; code {
	case http.StatusUnauthorized:
		return tool.AuthRequired(tool.AuthRequest{ID: "http:" + name, Provider: name, Operation: tool.AuthOperation{Kind: "tool_call", Server: name, Name: e.spec.Name}})
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // zero for a date: the usual pause
		return &tool.InterruptedError{After: time.Duration(max(seconds, 0)) * time.Second, Err: why}
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return &tool.InterruptedError{Sent: true, Err: why}
	default:
		if code/100 == 3 {
			why = fmt.Errorf("%s: %w", name, errRedirect)
		}
		return tool.Failure("http_"+strconv.Itoa(code), "%v", why)
	}
}

// line is one line of an answer that is a stream.
type line struct {
	Progress *string         `json:"progress"`
	Share    float64         `json:"share"` // of the work that is done, with progress
	Result   json.RawMessage `json:"result"`
	Error    *string         `json:"error"`
}

// stream reads lines until one has the outcome.
func (e *endpoint) stream(from io.Reader, progress func(string, float64)) (tool.Output, error) {
	lines := bufio.NewReader(from)
	for {
		raw, err := lines.ReadBytes('\n')
		var l line
		if text := bytes.TrimSpace(raw); len(text) > 0 && (err == nil || errors.Is(err, io.EOF)) {
			if json.Unmarshal(text, &l) != nil {
				return tool.Output{}, tool.Failure(tool.CodeFailed, "%s: a line of its answer is not a JSON object: %s", e.service.cfg.Name, content.Clip(string(text), 200))
			}
		}
		switch {
		case l.Error != nil:
			return tool.Output{}, tool.Failure(tool.CodeFailed, "%s", *l.Error)
		case l.Result != nil:
			return outcome(l.Result), nil
		case l.Progress != nil:
			progress(*l.Progress, l.Share)
		}
		if err != nil {
			return tool.Output{}, e.cut(err)
		}
	}
}

// outcome returns the output for a value: text for a string, otherwise JSON.
func outcome(value json.RawMessage) tool.Output {
	var text string
	if json.Unmarshal(value, &text) == nil && string(value) != "null" {
		return tool.Text(text)
	}
	return tool.Answer("application/json", value)
}

// limited is an answer that may not be too long.
type limited struct {
	r    io.Reader
	left int
}

// Read reads, or fails beyond the limit.
func (l *limited) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= n; l.left < 0 {
		return n, errTooLong
	}
	return n, err //nolint:wrapcheck // a reader's
}
