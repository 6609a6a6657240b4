// Package provider holds the code that adapters for model providers over HTTP share:
// the [Endpoint] for requests, the [Reply] under construction, the options of a
// configuration ([SetOptions]), and the classes of failures.
//
// It knows no particular provider. An adapter keeps only the mapping to its API: how
// a request is written, how events are read, and which error codes mean more than
// their HTTP status. No adapter reads environment variables or retries, and none
// follows redirects or prints its key.
//
// A call whose arguments are not a JSON object fails the attempt with class server. In
// a reply that a limit cut off, it is kept under invalid_arguments and does not run.
package provider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

// defaultSilence fails a call that receives nothing for this long.
const defaultSilence = 5 * time.Minute

// Settings describe an endpoint.
type Settings struct {
	Provider, Model string
	BaseURL         string
	Key             string        // removed from errors; KeyHeader contains it, unless it is empty
	KeyHeader       string        // the name of a header
	KeyPrefix       string        // prefix of the header's value
	HTTP            *http.Client  // nil: the default client
	Silence         time.Duration // fails a call that receives nothing for this long; zero: 5 minutes, negative: never

	Options any // the configuration, which is checked by its tags

	// Failure translates a response with an error status.
	Failure func(*StatusError) *model.Error
}

// Endpoint is the address of one model. The models of adapters embed it, so that
// printing one does not show the key. It is safe for concurrent use.
type Endpoint struct {
	settings Settings
	client   *http.Client
}

// NewEndpoint returns an endpoint. It returns an error without a model, for a key that
// no header can hold, for an invalid option, and unless the base URL is one of http or
// https. The error does not repeat the URL, which may contain a password.
func NewEndpoint(s Settings) (Endpoint, error) {
	base, err := url.Parse(s.BaseURL)
	switch {
	case s.Model == "":
		return Endpoint{}, fmt.Errorf("no model: write %s:MODEL", s.Provider)
	case strings.ContainsFunc(s.Key, func(r rune) bool { return r <= ' ' || r > '~' }):
		return Endpoint{}, errors.New("the API key contains blanks or control characters")
	case err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return Endpoint{}, errors.New("base_url: want http:// or https:// and a host")
	}
	if err := checkOptions(s.Options); err != nil {
		return Endpoint{}, err
	}
	return Endpoint{settings: s, client: newClient(s.HTTP, cmp.Or(s.Silence, defaultSilence))}, nil
}

// Name returns provider:model.
func (e Endpoint) Name() string { return e.settings.Provider + ":" + e.settings.Model }

// String returns the name, so that printing a model does not show the key.
func (e Endpoint) String() string { return e.Name() }

// GoString returns the name, so that printing a model does not show the key.
func (e Endpoint) GoString() string { return e.Name() }

// Request is a request to an endpoint.
type Request struct {
	Path   string // after the base URL
	Header http.Header
	Body   any // encoded as JSON
}

// Object is a JSON object of a request.
type Object map[string]any

// Opt sets a field unless the value is zero.
func (o Object) Opt(name string, value any) {
	if v := reflect.ValueOf(value); v.IsValid() && !v.IsZero() {
		o[name] = value
	}
}

// Exchange posts a request and returns the reply that h has read. It returns the cause
// of ctx if that has ended, otherwise a *model.Error with the usage so far.
func Exchange(ctx context.Context, e *Endpoint, r Request, reply *Reply, h Handler) (model.Reply, error) {
	var done model.Reply
	reason, err := e.post(ctx, r, h)
	if err == nil {
		done, err = reply.finish(reason)
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		failed := e.settings.Failure(status)
		if failed.Class.Retryable() {
			failed.RetryAfter = cmp.Or(failed.RetryAfter, retryAfter(status.Header, time.Now()))
		}
		err = failed
	}
	if err != nil {
		return model.Reply{}, failure(ctx, err, reply.Usage, e.settings.Key)
	}
	return done, nil
}

// post posts the request, passes the server-sent events of the response to h, and
// returns why the reply ended. The whole response of a server that does not stream is
// one event.
func (e *Endpoint) post(ctx context.Context, r Request, h Handler) (content.FinishReason, error) {
	s := e.settings
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r.Body); err != nil {
		return "", Invalid("request", "%v", err)
	}
	body.Truncate(body.Len() - 1) // the newline
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(s.BaseURL, "/")+r.Path, &body)
	if err != nil {
		return "", Invalid("request", "%v", err)
	}
	maps.Copy(req.Header, r.Header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "turnlog")
	if s.Key != "" { // servers without keys may reject an empty one
		req.Header.Set(s.KeyHeader, s.KeyPrefix+s.Key)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return "", err //nolint:wrapcheck // failure translates it
	}
	defer resp.Body.Close() //nolint:errcheck // nothing more is read
	if resp.StatusCode >= http.StatusMultipleChoices {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // part of it is better than nothing
		return "", &StatusError{Status: resp.StatusCode, Header: resp.Header, Body: text}
	}
	switch media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media {
	case "application/json":
		return readWhole(resp.Body, h)
	case "text/html":
		return "", Invalid("not_an_api", "%s is a web page: is the base URL that of the API?", req.URL.Redacted())
	}
	return readEvents(resp.Body, h)
}
