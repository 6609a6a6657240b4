// Package provider holds what adapters for model providers over HTTP share: the
// HTTP client ([Client]), the exchange of a request for a stream of events ([Stream]),
// the reply under construction ([Reply]), and the translation of failures to
// [model.Error] ([Failure], [ClassOf], [RetryAfter]).
//
// It knows no particular provider. An adapter keeps only what is specific to its
// API: how a request is written, how events are read, and which error codes mean
// more than their HTTP status.
package provider

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// RedirectError is returned when a provider redirects a request. Configure the
// target address instead.
type RedirectError struct{ Host string }

// Error names the host of the redirect.
func (e *RedirectError) Error() string {
	return fmt.Sprintf("redirected to %s, which is not followed", e.Host)
}

// Client returns a copy of base (nil: a zero client) that ends silent exchanges as
// [Transport] does. It follows no redirects, because the API key would go to any
// host that the response names.
func Client(base *http.Client, silence time.Duration) *http.Client {
	c := http.Client{}
	if base != nil {
		c = *base
	}
	c.Transport = &Transport{Base: c.Transport, Silence: silence}
	c.CheckRedirect = func(req *http.Request, _ []*http.Request) error { return &RedirectError{Host: req.URL.Host} }
	return &c
}

// ParseBaseURL parses the base URL of an API. It returns an error unless the
// scheme is http or https and there is a host. The error does not repeat the URL,
// which may contain a password.
func ParseBaseURL(base string) (*url.URL, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("base_url: want http:// or https:// and a host")
	}
	return u, nil
}

// CheckKey returns an error if an HTTP header cannot hold the key.
func CheckKey(key string) error {
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the API key contains blanks or control characters")
	}
	return nil
}
