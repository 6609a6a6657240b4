package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/turnlog/turnlog/gateway/internal/oidc"
	"github.com/turnlog/turnlog/gateway/internal/page"
	"github.com/turnlog/turnlog/gateway/internal/problem"
	"github.com/turnlog/turnlog/gateway/people"
	"github.com/turnlog/turnlog/internal/tracing"
)

// guard checks the origin, the sender and the rate of each request before any handler sees it.
func (g *Gateway) guard(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, problem.New(http.StatusForbidden, "cross_origin", "a page of another site sent this request", "send it from the gateway's own page, or from a program with a token"))
	}))
	inner := origin.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, page.Prefix) && r.Method == http.MethodGet { // public files
			next.ServeHTTP(w, r)
			return
		}
		p, err := g.identify(r)
		switch {
		case g.logs(w, r, p):
			return
		case err != nil && (r.Method == http.MethodGet || r.Method == http.MethodPost) && r.URL.Path == "/":
			g.showLogin(w, err)
			return
		case err != nil:
			refuse(w, r, err)
			return
		case g.cfg.Access.Enter(w, r):
			return
		}
		end, wait := g.meter.Begin(p.Name)
		if end == nil {
			refuse(w, r, problem.TooMany(wait))
			return
		}
		defer end()
		if g.disconnected() && (strings.HasPrefix(r.URL.Path, "/api/") || strings.HasPrefix(r.URL.Path, openaiPath) || r.URL.Path == mcpPath) {
			refuse(w, r, problem.NoNATS())
			return
		}
		ctx := tracing.With(context.WithValue(r.Context(), personKey{}, p), r.Header.Get(tracing.HeaderParent), strings.Join(r.Header.Values(tracing.HeaderBaggage), ","))
		if !p.Until.IsZero() { // this also ends streams
			var stop context.CancelFunc
			ctx, stop = context.WithDeadline(ctx, p.Until)
			defer stop()
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cache-Control", "no-store")
		if g.probed(w, r) {
			return
		}
		if !g.cfg.Access.Serves(r.Host) {
			refuse(w, r, problem.New(http.StatusMisdirectedRequest, "wrong_host", "the gateway is not "+r.Host,
				"use the address that the gateway printed, or start it with --host "+people.Hostname(r.Host)))
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// probed answers health checks of load balancers, which have no token and use the machine's address as host.
func (g *Gateway) probed(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	switch r.URL.Path {
	case "/readyz":
		if why := g.unready(); why != "" {
			http.Error(w, why, http.StatusServiceUnavailable)
			return true
		}
	case "/healthz":
	default:
		return false
	}
	_, _ = fmt.Fprintln(w, "ok")
	return true
}

// unready returns why the gateway cannot answer requests, or "".
func (g *Gateway) unready() string {
	switch {
	case g.closing.Err() != nil:
		return "it stops"
	case g.disconnected():
		return "no connection to NATS"
	}
	return ""
}

// refuse answers a request with a problem, in the format of the request's protocol.
func refuse(w http.ResponseWriter, r *http.Request, p *problem.Problem) {
	if strings.HasPrefix(r.URL.Path, openaiPath) {
		maps.Copy(w.Header(), p.GetHeaders())
		openaiError(p).Write(w)
		return
	}
	p.Write(w)
}

// identify returns who sent a request.
func (g *Gateway) identify(r *http.Request) (*people.Person, *problem.Problem) {
	p, err := g.cfg.Access.Identify(r)
	if err != nil && g.login != nil {
		if token, ok := people.Bearer(r); !ok {
			if of, other := g.login.Browser(r); !errors.Is(other, oidc.ErrNoCookie) {
				p, err = of, other
			}
		} else if oidc.IsToken(token) {
			p, err = g.login.Person(r.Context(), token)
		}
	}
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, people.ErrNoToken):
		return nil, problem.New(http.StatusUnauthorized, "no_token", "the request has no token", "send the header Authorization: Bearer TOKEN, or open the address that the gateway printed")
	case errors.Is(err, people.ErrUnknown):
		return nil, problem.New(http.StatusUnauthorized, "wrong_token", "no person has this token", "check the token: a gateway without people makes a new one at each start; otherwise ask an operator for one")
	}
	return nil, loginProblem(err)
}
