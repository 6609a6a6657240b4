package provider

import (
	"fmt"
	"net/http"
	"time"
)

// RedirectError is what ends an exchange that the other side wants to send
// elsewhere; name the address that it says in the adapter's configuration.
type RedirectError struct{ Host string }

// Error says where the request was to go.
func (e *RedirectError) Error() string {
	return fmt.Sprintf("redirected to %s, which is not followed", e.Host)
}

// Client returns base, or the default client for nil, for exchanges with a
// provider: a silent one ends as [Transport] says, and none is redirected, because
// the request's key would go along to whatever host the answer names.
func Client(base *http.Client, silence time.Duration) *http.Client {
	c := http.Client{}
	if base != nil {
		c = *base
	}
	c.Transport = &Transport{Base: c.Transport, Silence: silence}
	c.CheckRedirect = func(req *http.Request, _ []*http.Request) error { return &RedirectError{Host: req.URL.Host} }
	return &c
}
