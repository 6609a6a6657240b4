package gateway

import (
	"errors"
	"net/http"

	"github.com/turnlog/turnlog/gateway/internal/oidc"
	"github.com/turnlog/turnlog/gateway/internal/page"
	"github.com/turnlog/turnlog/gateway/internal/problem"
	"github.com/turnlog/turnlog/gateway/people"
)

// Paths to log in and out.
const (
	loginPath  = "/login"
	logoutPath = "/logout"
)

// logs handles the requests of a login or logout, and reports whether this was one.
func (g *Gateway) logs(w http.ResponseWriter, r *http.Request, p *people.Person) bool {
	if r.Method == http.MethodPost && r.URL.Path == logoutPath {
		people.Leave(w, r)
		if g.login != nil {
			g.login.Leave(w)
		}
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return true
	}
	if g.login == nil || r.Method != http.MethodGet || r.URL.Path != loginPath && r.URL.Path != oidc.Callback {
		return false
	}
	var err error
	switch {
	case p != nil: // a link on another site must not change who is logged in
		http.Redirect(w, r, "/", http.StatusSeeOther)
	case r.URL.Path == loginPath:
		err = g.login.Begin(w, r)
	default:
		err = g.login.End(w, r)
	}
	if err != nil {
		g.showLogin(w, loginProblem(err))
	}
	return true
}

// showLogin shows the login page, with the reason if the last attempt failed.
func (g *Gateway) showLogin(w http.ResponseWriter, failed *problem.Problem) {
	d := page.Login{Login: g.login != nil, Tokens: g.cfg.Access.Tokens(), Status: http.StatusUnauthorized}
	if failed != nil && failed.Code() != "no_token" {
		d.Failed, d.Status = failed.Detail+": "+failed.Do, failed.Status
	}
	page.ServeLogin(w, d)
}

// loginProblem returns the problem of an error from an OpenID Connect login.
func loginProblem(err error) *problem.Problem {
	switch {
	case errors.Is(err, people.ErrNoRole):
		return problem.New(http.StatusForbidden, "no_role", err.Error(), "the operator: in the file of people, name claims that the provider sends, and give one of the person's groups a role")
	case errors.Is(err, oidc.ErrRefused):
		return problem.New(http.StatusUnauthorized, "wrong_token", err.Error(), "log in again, or get a new token for this gateway from the provider")
	}
	p := problem.New(http.StatusServiceUnavailable, "no_provider", err.Error(), "retry, or use a token of the gateway; the operator: check that the gateway reaches the issuer in its file of people")
	p.Retry = 5
	return p
}
