package httptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/turnlog/turnlog/internal/egress"
	"github.com/turnlog/turnlog/internal/tracing"
	"github.com/turnlog/turnlog/tool"
)

// endpoint is a tool: one method of one path of a service. It outlives the service's offers.
type endpoint struct {
	service *service
	spec    tool.Spec
	method  string
	path    *url.URL // URL of a manifest's tool, or the base to which template is appended
	whole   bool     // the input is the body

	// For an operation:
	about      tool.Description
	template   string // with {name} for each parameter in it
	parameters []parameter
	bodyKind   string // media type; "": it has no body
}

// Spec returns the tool's spec.
func (e *endpoint) Spec() tool.Spec { return e.spec }

// Call sends the request, and sends it again as far as the tool's effects allow.
func (e *endpoint) Call(ctx context.Context, c tool.Call) (tool.Output, error) {
	e.service.calls.Add(1)
	defer e.service.calls.Add(-1)
	if c.Progress == nil {
		c.Progress = func(string, float64) {}
	}
	out, err := tool.Attempt(ctx, e.spec.Effects, func(ctx context.Context) (tool.Output, error) { return e.send(ctx, c) })
	if f, ok := errors.AsType[*tool.Error](err); ok && (f.Code == tool.CodeUnavailable || f.Code == tool.CodeUnknown) {
		e.service.watch.Hurry() // it may be gone
	}
	return out, err
}

// send sends one request and reads the answer.
func (e *endpoint) send(ctx context.Context, c tool.Call) (tool.Output, error) {
	req, err := e.request(ctx, c)
	if err != nil {
		return tool.Output{}, err
	}
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	resp, err := e.service.http.Do(req.WithContext(httptrace.WithClientTrace(ctx, trace)))
	switch err = plain(err); {
	case errors.Is(err, egress.ErrPrivate):
		return tool.Output{}, tool.Failure(tool.CodeUnavailable, "%s: %v; nothing was done", e.service.cfg.Name, err)
	case err != nil:
		return tool.Output{}, &tool.InterruptedError{Sent: sent.Load(), Err: fmt.Errorf("%s: %w", e.service.cfg.Name, err)}
	}
	defer func() { _ = resp.Body.Close() }() // everything needed was read
	return e.read(resp, c.Progress)
}

// request returns the request for a call.
func (e *endpoint) request(ctx context.Context, c tool.Call) (*http.Request, error) {
	at, header := e.path, http.Header{}
	var body io.Reader
	if e.whole {
		body = bytes.NewReader(c.Input)
		header.Set("Content-Type", "application/json")
	} else {
		var err error
		if at, body, err = e.fill(c.Input, header); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, e.method, at.String(), body)
	if err != nil {
		return nil, err //nolint:wrapcheck // a URL that was parsed
	}
	req.Header = header
	if err := e.service.sign(req); err != nil {
		return nil, tool.Failure(tool.CodeUnavailable, "%s: %v; nothing was done", e.service.cfg.Name, err)
	}
	req.Header.Set("Accept", "application/json, application/x-ndjson, text/*;q=0.9, */*;q=0.8")
	headers := tool.Headers(c)
	maps.Copy(headers, tracing.Headers(ctx))
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	return req, nil
}

// fill puts the properties of an operation's input into the path, the query, the headers and the body.
func (e *endpoint) fill(input json.RawMessage, header http.Header) (at *url.URL, payload io.Reader, err error) {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(input, &values); err != nil {
		return nil, nil, tool.Failure(tool.CodeInvalidArguments, "%v", err)
	}
	path, query := e.template, url.Values{}
	for _, p := range e.parameters {
		texts, ok := texts(values[p.Name])
		switch {
		case !ok:
		case p.In == "query" && (p.Explode == nil || *p.Explode):
			query[p.Name] = texts
		case p.In == "query":
			query.Set(p.Name, strings.Join(texts, ","))
		case p.In == "header":
			header.Set(p.Name, strings.Join(texts, ","))
		default:
			text := strings.Join(texts, ",")
			if text == "" {
				return nil, nil, tool.Failure(tool.CodeInvalidArguments, "%s is part of the path and cannot be empty", p.Name)
			}
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(text))
		}
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return nil, nil, tool.Failure(tool.CodeInvalidArguments, "the path %s would lead elsewhere", path)
		}
	}
	escaped := strings.TrimRight(e.path.EscapedPath(), "/") + path
	at = &url.URL{Scheme: e.path.Scheme, Host: e.path.Host, RawPath: escaped, RawQuery: query.Encode()}
	if at.Path, err = url.PathUnescape(escaped); err != nil {
		return nil, nil, tool.Failure(tool.CodeInvalidArguments, "the path %s: %v", e.template, err)
	}
	if raw := values[bodyProperty]; e.bodyKind != "" && raw != nil {
		header.Set("Content-Type", e.bodyKind)
		payload = bytes.NewReader(raw)
	}
	return at, payload, nil
}

// texts returns the value of a parameter as text, one for each element of a list. ok is false if there is no value.
func texts(raw json.RawMessage) (out []string, ok bool) {
	var list []json.RawMessage
	if len(raw) == 0 || string(raw) == "null" {
		return nil, false
	}
	if json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	for _, x := range list {
		var text string
		if json.Unmarshal(x, &text) != nil {
			text = string(x)
		}
		out = append(out, text)
	}
	return out, true
}
