package gateway

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"

	"github.com/turnlog/turnlog/gateway/internal/page"
	"github.com/turnlog/turnlog/gateway/people"
)

// guard checks where a request comes from, and from whom, before anything else looks at it.
func (g *Gateway) guard(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, problem(http.StatusForbidden, "cross_origin", "a page of another site sent this request", "send it from the gateway's own page, or from a program with a token"))
	}))
	inner := origin.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, page.Prefix) && r.Method == http.MethodGet { // the same for everyone
			next.ServeHTTP(w, r)
			return
		}
		p, err := g.identify(r)
		switch {
		case err != nil && (r.Method == http.MethodGet || r.Method == http.MethodPost) && r.URL.Path == "/":
			page.Enter(w, r)
			return
		case err != nil:
			refuse(w, r, err)
			return
		}
		if g.cfg.Access.Enter(w, r) {
			return
		}
		if g.disconnected() && (strings.HasPrefix(r.URL.Path, "/api/") || strings.HasPrefix(r.URL.Path, openaiPath) || r.URL.Path == mcpPath) {
			refuse(w, r, noNATS())
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), personKey{}, p)))
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cache-Control", "no-store")
		if !g.cfg.Access.Serves(r.Host) {
			refuse(w, r, problem(http.StatusMisdirectedRequest, "wrong_host", "the gateway is not "+r.Host,
				"use the address that it printed, or start it with --host "+people.Hostname(r.Host)))
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// refuse answers a request with a problem, in the form that its protocol has.
func refuse(w http.ResponseWriter, r *http.Request, p *Problem) {
	if strings.HasPrefix(r.URL.Path, openaiPath) {
		maps.Copy(w.Header(), p.GetHeaders())
		openaiError(p).Write(w)
		return
	}
	p.write(w)
}

// identify returns who sent a request.
func (g *Gateway) identify(r *http.Request) (*people.Person, *Problem) {
	p, err := g.cfg.Access.Identify(r)
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, people.ErrNoToken):
		return nil, problem(http.StatusUnauthorized, "no_token", "the request has no token", "send the header Authorization: Bearer TOKEN, or open the address that the gateway printed")
	}
	return nil, problem(http.StatusUnauthorized, "wrong_token", "no person has this token", "check it: a gateway without people makes a new one at each start; an operator can give you one")
}
