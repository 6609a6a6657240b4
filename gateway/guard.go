package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/turnlog/turnlog/gateway/internal/page"
	"github.com/turnlog/turnlog/gateway/internal/people"
)

// Access says who may use a gateway.
type Access struct {
	Token    string // of a single operator; "": none
	Operator string // the operator's name
	People   []byte // the file of people; nil: none
	Open     bool   // everybody who reaches the address is the operator

	Loopback bool     // only programs of this machine reach the address
	Hosts    []string // names by which clients reach it, in addition to addresses and localhost

	directory *people.Directory
}

// ErrAccess is returned by New for an Access that would admit no one, or everyone by mistake.
var ErrAccess = errors.New("gateway: access")

func (a *Access) check() (err error) {
	switch {
	case a.People != nil && (a.Token != "" || a.Open):
		return errors.Join(ErrAccess, errors.New("with people, neither a token nor open access"))
	case a.People != nil:
		a.directory, err = people.Parse(a.People)
		return err
	case a.Open:
		return nil
	case a.Token == "":
		return errors.Join(ErrAccess, errors.New("there are neither people nor a token"))
	case len(a.Token) < minToken:
		return errors.Join(ErrAccess, fmt.Errorf("a token of %d characters can be guessed: use %d or more", len(a.Token), minToken))
	}
	a.directory = people.Alone(a.Operator, a.Token)
	return nil
}

// minToken is the length of the shortest token of a single operator.
const minToken = 16

// Cookie is the name of the cookie that has a browser's token.
const Cookie = "turnlog_token"

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
		if g.enter(w, r) {
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
		if !g.cfg.Access.serves(r.Host) {
			refuse(w, r, problem(http.StatusMisdirectedRequest, "wrong_host", "the gateway is not "+r.Host,
				"use the address that it printed, or start it with --host "+hostname(r.Host)))
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

// serves reports whether requests for a host are for the gateway. A page of another site could have its name
// resolve to this machine, but its requests still say that name.
func (a *Access) serves(host string) bool {
	name := hostname(host)
	_, err := netip.ParseAddr(name)
	switch {
	case err == nil, name == "localhost", slices.Contains(a.Hosts, name):
		return true
	}
	return len(a.Hosts) == 0 && !a.Loopback && !a.Open // a token protects it, and no cookie is for that name
}

func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// identify returns who sent a request.
func (g *Gateway) identify(r *http.Request) (*people.Person, *Problem) {
	a := &g.cfg.Access
	if a.Open {
		return &people.Person{Name: a.Operator, Role: people.Operator}, nil
	}
	token, given := a.tokenOf(r)
	p, err := a.directory.Find(token)
	switch {
	case err == nil:
		return p, nil
	case !given:
		return nil, problem(http.StatusUnauthorized, "no_token", "the request has no token", "send the header Authorization: Bearer TOKEN, or open the address that the gateway printed")
	}
	return nil, problem(http.StatusUnauthorized, "wrong_token", "no person has this token", "check it: a gateway without people makes a new one at each start; an operator can give you one")
}

// tokenOf returns the token of a request, and whether it has any. A link of another site does not have the browser of a
// person become another one.
func (a *Access) tokenOf(r *http.Request) (string, bool) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		if strings.EqualFold(scheme, "Bearer") {
			return strings.TrimSpace(token), true
		}
		return "", true
	}
	c, err := r.Cookie(Cookie)
	keeps := linked(r) && err == nil && a.knows(c.Value)
	token, entering := offered(r)
	switch {
	case entering && !keeps:
		return token, true
	case err == nil:
		return c.Value, true
	}
	return "", false
}

// maxForm bounds the form that asks for a token.
const maxForm = 4 << 10

// offered returns the token with which a browser enters: that of the printed address, or of the form that asks for one,
// which keeps it out of addresses.
func offered(r *http.Request) (token string, entering bool) {
	switch {
	case r.URL.Path != "/":
	case r.Method == http.MethodPost:
		if r.PostForm == nil {
			r.Body = http.MaxBytesReader(nil, r.Body, maxForm)
		}
		return r.PostFormValue("token"), true
	case r.Method == http.MethodGet && r.URL.Query().Has("token"):
		return r.URL.Query().Get("token"), true
	}
	return "", false
}

// knows reports whether a person has a token.
func (a *Access) knows(token string) bool {
	if a.directory == nil {
		return false
	}
	_, err := a.directory.Find(token)
	return err == nil
}

// linked reports whether a page of another site led the browser here.
func linked(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "cross-site" || site == "same-site"
}

// enter keeps the token with which a browser enters in a cookie, if it is the one that counts, and takes it out of the
// address.
func (g *Gateway) enter(w http.ResponseWriter, r *http.Request) bool {
	token, entering := offered(r)
	if !entering {
		return false
	}
	if counts, _ := g.cfg.Access.tokenOf(r); counts == token {
		http.SetCookie(w, &http.Cookie{
			Name: Cookie, Value: token, Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
			MaxAge: int((30 * 24 * time.Hour).Seconds()),
		})
	}
	http.Redirect(w, r, (&url.URL{Path: "/"}).String(), http.StatusSeeOther)
	return true
}
